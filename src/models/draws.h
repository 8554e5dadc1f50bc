// What a model that sends tokens to random experts is fed, so that each draw depends on the step, the layer and the
// token's place in the global batch, and on nothing else: not on the mesh, nor on how a step is cut into passes.
#pragma once

#include <cstdint>
#include <vector>

namespace moesh::models {

// The keys of the layers' draws in a step, [layers, 2].
std::vector<std::int32_t> draw_keys(std::int64_t seed, std::int64_t step, std::int64_t layers);

// The numbers of the tokens of a batch, [rows, length]: row by row, whatever order a row is put in afterwards.
std::vector<std::int32_t> token_numbers(std::int64_t rows, std::int64_t length);

}  // namespace moesh::models
