// Inputs of multi-token prediction: what lies further on in a row than the tokens themselves.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moesh::models {

// An array of the batch as a module takes it, which predicts that many tokens further on.
struct InputAhead {
  std::string input;  // the array's name in the batch
  std::int64_t module = 1;

  std::string name() const;  // of the model's input
};

// What a module takes: tokens, targets and the targets' segments.
std::array<InputAhead, 3> inputs_of_module(std::int64_t module);

// Rows of `length` values, each with the value that stands `places` further on in its row, or 0 where its document ends before that, or
// the position is padding. `segments`: of the same positions, 0 for padding.
std::vector<std::int32_t> values_ahead(std::span<const std::int32_t> values, std::span<const std::int32_t> segments, std::int64_t length,
                                       std::int64_t places);

// How many of a hundred guesses of a module are what the model guesses `module` places later. All arrays are rows of `length`; a position
// counts if `counted_ahead`, the segments of targets that many places ahead, is not 0.
double percent_accepted(std::span<const std::int32_t> by_model, std::span<const std::int32_t> by_module,
                        std::span<const std::int32_t> counted_ahead, std::int64_t length, std::int64_t module);

}  // namespace moesh::models
