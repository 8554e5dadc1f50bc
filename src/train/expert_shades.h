// How pictures show what the experts of a layer had to do.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moesh::train {

// Of grey, from each expert's tokens: black has none, grey its even share of them, white twice that and more.
std::vector<std::uint8_t> expert_shades(std::span<const double> tokens);

}  // namespace moesh::train
