// Values whose number of valid rows is known only at run time: the rows that tokens send to experts.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace moesh::graph {

// Sets of values that have the same rows, each with the value of counts whose sum is the number of its valid rows.
class SameRows {
 public:
  explicit SameRows(std::size_t values);

  // Of two sets that are counted already, the first's count stays.
  void join(ValueId a, ValueId b);
  void count(ValueId rows, ValueId sizes) { counted(find(rows)) = sizes; }
  ValueId counted_by(ValueId id) { return counted(find(id)); }  // -1 if all rows are valid

 private:
  ValueId& first(ValueId id) { return first_[static_cast<std::size_t>(id)]; }
  ValueId& counted(ValueId id) { return counted_[static_cast<std::size_t>(id)]; }
  ValueId find(ValueId id);

  std::vector<ValueId> first_;
  std::vector<ValueId> counted_;
};

// For each value of a region's body, the value of counts whose sum is the number of its valid rows; -1 if all rows are valid.
std::vector<ValueId> counted_by(const Graph& body);

}  // namespace moesh::graph
