// Shades of grey that show how many tokens each expert of a layer had.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moesh::train {

// One shade per expert, from its number of tokens: black for none, grey for an even share, white for twice that or more.
std::vector<std::uint8_t> expert_shades(std::span<const double> tokens);

}  // namespace moesh::train
