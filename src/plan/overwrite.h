// Decides whether a value may be made in the memory of another one.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace moesh::plan {

// Which values of a graph are aliases, the same memory in another shape, and the last use of each.
class Aliases {
 public:
  explicit Aliases(const graph::Graph& graph);

  // The value that the memory is made for; its other aliases are reshapes and constraints of it.
  graph::ValueId first(graph::ValueId id) const { return first_[static_cast<std::size_t>(id)]; }
  // The last node that reads it or an alias of it; the number of nodes for a result of the graph.
  graph::NodeId last_use(graph::ValueId id) const { return last_use_[static_cast<std::size_t>(first(id))]; }

 private:
  std::vector<graph::ValueId> first_;
  std::vector<graph::NodeId> last_use_;
};

// Whether the op's kernels can write this result over this operand, if it has the result's type and shape.
bool may_lie_in(graph::Op op, std::size_t operand, std::size_t result);

// Whether `made` may take the memory of `old`, which exists before it. If the node that makes `made` is also the last to read `old`, its
// kernel must be able to work in place. For a repeat or region the caller must ask again about the corresponding values of the body.
bool may_overwrite(const graph::Graph& graph, const Aliases& aliases, graph::ValueId old, graph::ValueId made);

}  // namespace moesh::plan
