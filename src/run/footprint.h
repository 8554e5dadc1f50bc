// What a program will hold in memory, known before it runs: the executor goes through it with buffers that only count.
#pragma once

#include <cstdint>
#include <functional>

#include "graph/graph.h"
#include "mesh/mesh.h"

namespace moesh::run {

// The most bytes that values take at once, inputs and parameters included: on one device, and in a process that owns all
// devices and stores equal shards once. Workspace inside kernels is not counted, see workspace.h.
struct Footprint {
  std::int64_t device = 0;
  std::int64_t process = 0;
  std::int64_t taken = 0;  // by the process from the machine: buffers have rounded sizes
};

// `stays`: whether an input or parameter is kept by whoever runs the program; others go after their last use.
Footprint footprint_of(const graph::Graph& graph, const mesh::Mesh& mesh, const std::function<bool(const graph::Node&)>& stays);

}  // namespace moesh::run
