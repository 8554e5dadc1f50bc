// The order of a row's positions where its length is spread over devices.
#pragma once

#include <cstdint>
#include <vector>

#include "config/settings.h"
#include "mesh/mesh.h"

namespace moesh::train {

// Under a causal mask late positions see more than early ones. So the row is cut into twice as many chunks as it has shards,
// and a shard gets one from the front and the one as far from the end: with two shards 0 1 | 6 7 and 2 3 | 4 5 of eight.
std::vector<std::int64_t> balanced_order(std::int64_t length, std::int64_t shards);

// What the settings ask for on this mesh: the position that stands at each place; empty when rows stay as they are.
std::vector<std::int64_t> context_order(const config::Settings& settings, const mesh::Mesh& mesh);

}  // namespace moesh::train
