// All that is known of an op beside its kernels, in one place: its name, which shapes fit, how its dims hang together,
// and its gradient. To add an op, add it to `Op`, give its facts in a file of ops/, and name them in facts.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "graph/factors.h"

namespace moesh::graph {

// A node with its operands and results.
struct NodeView {
  const Graph& graph;
  const Node& node;

  std::size_t operands() const { return node.operands.size(); }
  std::size_t results() const { return node.results.size(); }
  const Value& operand(std::size_t i) const { return graph.value(node.operands[i]); }
  const Value& result(std::size_t i) const { return graph.value(node.results[i]); }
  template <typename T>
  const T& of() const {
    return std::get<T>(node.attributes);
  }
};

// A node in the backward pass, with the cotangents of its results; those of results that nothing depends on are absent.
struct Vjp {
  Builder& builder;
  const Node& node;
  const std::vector<Tensor>& operands;
  const std::vector<Tensor>& results;
  const std::vector<Tensor>& cotangents;

  Tensor dy() const { return cotangents.front(); }
  template <typename T>
  const T& of() const {
    return std::get<T>(node.attributes);
  }
  // A gradient op with the node's attributes and results like the given tensors.
  std::vector<Tensor> grad(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& like) const;
};

class FactorTable;

// What bounds a kernel: how much of a machine's rates it reaches depends on it.
enum class KernelKind : std::uint8_t {
  product,      // of matrices
  attention,
  elementwise,  // reads and writes in order
  norm,         // goes over its rows twice or more
  rows,         // moves rows to places that other values name
};

// What a kernel has to do on one device.
struct Work {
  std::string_view op = "copy";  // its name
  KernelKind kind = KernelKind::elementwise;
  DType dtype = DType::float32;  // of its arithmetic
  double flops = 0;              // of products and attention; what the others calculate takes less than their memory traffic
  double bytes = 0;              // read and written
  double rows = 0, columns = 0, depth = 0;  // of one of a product's matrices
  Rounded rounded = Rounded::none;          // the numbers that it multiplies, and
  double rounded_values = 0;                // how many are made of its operands first
};

// Empty when the operands and results, whose numbers are right, fit each other; otherwise what they do not fit.
using ShapeRule = std::string (*)(const NodeView&);
// The factors of the node's dims; null for an op that only stands in regions, or is placed by a rule of its own.
using FactorRule = void (*)(const NodeView&, FactorTable&);
// The cotangents of the operands, absent where an operand has none; null for an op that nothing is differentiated
// through.
using GradientRule = std::vector<Tensor> (*)(const Vjp&);
// The flops and the matrices of a node on one device's shapes; null where they follow from the factors.
using WorkRule = Work (*)(const NodeView&);

// From so many to so many.
struct Counts {
  std::size_t least;
  std::size_t most;

  constexpr Counts(std::size_t exactly) : least(exactly), most(exactly) {}
  constexpr Counts(std::size_t from, std::size_t to) : least(from), most(to) {}
  bool hold(std::size_t count) const { return least <= count && count <= most; }
};
inline constexpr std::size_t kMany = 1'000'000;

struct OpFacts {
  std::string_view name;
  Attributes (*attributes)();  // of the type that the op has, at their defaults
  Counts takes;                // operands
  Counts gives;                // results
  ShapeRule shapes;
  FactorRule factors;
  GradientRule gradient;
  bool keeps_dims = false;       // the operands' dims go on in the result: what is wanted of it is wanted of them
  bool keeps_parameter = false;  // a parameter's result is that parameter in another type or shape
  // Among several devices: the collective that the op is, see collective_of; or whether it stands for collectives and local
  // kernels, and is split into them before it runs.
  std::optional<ReshardOf::Kind> collective = std::nullopt;
  bool is_split = false;
  KernelKind kernel = KernelKind::elementwise;
  WorkRule work = nullptr;
  int looked_up = -1;  // the operand of which a kernel reads no more than it gives
  int of_groups = -1;  // the operand that has something for each group of the first one's rows, read where a group has any
  int added_to = -1;   // where one operand more may stand: what the first result is added to, see partition/fuse_sums.h
};

template <typename T>
Attributes blank() {
  return T{};
}
inline constexpr FactorRule kNotSpread = nullptr;
inline constexpr GradientRule kNoGradient = nullptr;

inline constexpr int kOps = static_cast<int>(Op::balance_update) + 1;
const OpFacts& facts_of(Op op);

// What the devices of a group do together in this node. Any other node is a local kernel: it touches only the memory of its
// own device.
std::optional<ReshardOf::Kind> collective_of(const Node& node);

// Whether the node has that operand more.
bool adds(const Node& node);

// What the node's operands and results do not fit; empty when all is well.
std::string problem_of(const NodeView& view);

}  // namespace moesh::graph
