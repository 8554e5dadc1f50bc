// The work that nodes give their devices: the only source of flop and byte counts.
#pragma once

#include "graph/facts.h"
#include "mesh/mesh.h"

namespace moesh::graph {

// The work of the node's kernel on each device, for values that are laid out on the mesh or have the shapes of one device.
Work work_of(const NodeView& view, const mesh::Mesh& mesh);
// The same without the bytes, for a node whose dims have these factors with these sizes on a device.
Work work_of(const Node& node, const OpFactors& factors, const std::vector<std::int64_t>& sizes);

// Whether the kernel is a matrix product or attention, which do most of a step's arithmetic.
bool is_product(Op op);
inline bool is_product(const Node& node) { return is_product(node.op); }

// Adds up the bytes that a node's kernel reads and writes on a device.
class Traffic {
 public:
  Traffic(const Node& node, bool in_place);

  // An operand of so many bytes, of which the kernel reads a part.
  void read(std::size_t operand, double bytes, DType dtype, double part = 1);
  void write(double bytes) { written_ += bytes; }
  void add_to(Work& work) const;

 private:
  int looked_up_;
  bool in_place_;
  bool looks_up_ = false;
  double read_ = 0, written_ = 0;
  double factors_ = 0;  // elements of a product's two operands
};

// The expected number of groups that have a row, if each row is equally likely to be in any group.
double groups_with_rows(double rows, double groups);

// The number of pairs of a query and a key that it sees, in a row of so many tokens. A query's own key counts in part where a
// convention for model FLOPs wants that: half of it makes a causal row length^2 / 2.
double pairs_seen(std::int64_t length, const AttentionOf& of, double own_key = 1);

// The pairs of the shard that has the most, relative to the mean, if rows of so many tokens are cut into shards.
double busiest_share(const AttentionOf& of, std::int64_t length, std::int64_t shards);

}  // namespace moesh::graph
