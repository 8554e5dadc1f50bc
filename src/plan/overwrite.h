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

// Ops whose kernels read an element of their operands before they write it, and no other one after that.
bool goes_by_element(graph::Op op);

// `old` is there before `made`. Where the node that makes it is also the last to read `old`, an element must be read before it is
// written: so do ops that go element by element. Bodies have to be asked again, with what they call the two.
bool may_overwrite(const graph::Graph& graph, const Memory& memory, graph::ValueId old, graph::ValueId made);

}  // namespace moesh::plan
