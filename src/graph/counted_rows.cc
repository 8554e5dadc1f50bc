#include "graph/counted_rows.h"

#include <numeric>

#include "graph/facts.h"

namespace moesh::graph {

// A union-find.
SameRows::SameRows(std::size_t values) : first_(values), counted_(values, -1) { std::iota(first_.begin(), first_.end(), 0); }

ValueId SameRows::find(ValueId id) {
  while (first(id) != id) id = first(id) = first(first(id));
  return id;
}

void SameRows::join(ValueId a, ValueId b) {
  const ValueId into = find(a), from = find(b);
  if (counted(into) < 0) counted(into) = counted(from);
  first(from) = into;
}

std::vector<ValueId> counted_by(const Graph& body) {
  SameRows same(body.values.size());
  for (const Node& node : body.nodes) {
    if (const RowsRule rule = facts_of(node.op).rows) rule(node, same);
  }
  std::vector<ValueId> counted;
  for (std::size_t i = 0; i < body.values.size(); ++i) counted.push_back(same.counted_by(static_cast<ValueId>(i)));
  return counted;
}

}  // namespace moesh::graph
