// Inputs of a model that routes tokens to random experts. Each draw depends on the seed, the step, the layer and the token's place in the
// global batch, and on nothing else: not on the mesh, nor on how a step is split into passes.
#pragma once

#include <cstdint>
#include <vector>

namespace moesh::models {

// The keys of the layers' draws in a step, [layers, 2].
std::vector<std::int32_t> draw_keys(std::int64_t seed, std::int64_t step, std::int64_t layers);

// The numbers of the tokens of a batch, [rows, length]: counted row by row, in whatever order the tokens of a row are put afterwards.
std::vector<std::int32_t> token_numbers(std::int64_t rows, std::int64_t length);

}  // namespace moesh::models
