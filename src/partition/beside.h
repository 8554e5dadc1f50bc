// What the layouts of values depend on that no constraint tells: the values that they are read with.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "partition/wants.h"

namespace moesh::partition {

struct Beside {
  // By value: an earlier value with the same dims that it is first read with. A broadcast can be made in any layout, so its result takes
  // that value's. A cotangent of which no layout is wanted takes that of a value of the forward pass: it mostly belongs to that value, and
  // large cotangents that lie otherwise would be moved to and fro.
  std::vector<std::optional<graph::ValueId>> with;
  // By cotangent: the first product or cast of the backward pass that reads it, or -1.
  std::vector<graph::NodeId> reader;
};

Beside find_beside(const graph::Graph& graph, const std::vector<Want>& wants);

}  // namespace moesh::partition
