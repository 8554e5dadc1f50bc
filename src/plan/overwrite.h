// Whether a value may be made where another one lies.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace moesh::plan {

// Which values of a graph are the same memory seen in another shape, and how long each is needed.
class Memory {
 public:
  explicit Memory(const graph::Graph& graph);

  // The value that is made; the others are its memory in other shapes.
  graph::ValueId first(graph::ValueId id) const { return first_[static_cast<std::size_t>(id)]; }
  // The last node that reads it in any shape; behind all nodes for a result.
  graph::NodeId last_use(graph::ValueId id) const { return last_use_[static_cast<std::size_t>(first(id))]; }

 private:
  std::vector<graph::ValueId> first_;
  std::vector<graph::NodeId> last_use_;
};

// Whether the op's kernels give a result where an operand of its type and shape lies: they go element by element, or read all that
// they need of a row before they write it.
bool may_lie_in(graph::Op op, std::size_t operand);

// `old` is there before `made`. Where the node that makes it is also the last to read `old`, its kernel must bear that. Bodies have
// to be asked again, with what they call the two.
bool may_overwrite(const graph::Graph& graph, const Memory& memory, graph::ValueId old, graph::ValueId made);

}  // namespace moesh::plan
