// The order of a row's positions when context parallelism shards its length over devices.
#pragma once

#include <cstdint>
#include <vector>

#include "config/settings.h"
#include "mesh/mesh.h"

namespace moesh::mesh {

// Under a causal mask late positions attend to more keys than early ones. To balance the work, the row is cut into twice as many
// chunks as there are shards, and each shard gets one chunk from the front and the chunk equally far from the end: with two shards
// and eight positions, the first has 0 1 | 6 7 and the second 2 3 | 4 5.
std::vector<std::int64_t> balanced_order(std::int64_t length, std::int64_t shards);

// Whether the settings ask for a balance that the length of a row or the number of shards does not allow.
bool cannot_be_balanced(const config::Settings& settings, const Mesh& mesh);

// The number of shards among which the settings balance the work on this mesh; 1 if rows keep their order.
std::int64_t balanced_shards(const config::Settings& settings, const Mesh& mesh);

// Refuses settings whose work cannot be balanced.
void check_balance(const config::Settings& settings, const Mesh& mesh);

// Notes a balance that is asked for and left off.
void note_balance(const config::Settings& settings, const Mesh& mesh);

// The order that the settings ask for on this mesh: entry i is the position that stands at place i. Empty if rows keep their order.
std::vector<std::int64_t> context_order(const config::Settings& settings, const Mesh& mesh);

}  // namespace moesh::mesh
