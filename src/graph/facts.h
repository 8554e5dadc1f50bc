// Everything about an op except its kernels, in one place: its name, the shapes it accepts, how its dims relate, and its gradient. To add
// an op, add it to `Op`, give its facts in a file of ops/, and name them in facts.cc.
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

// A node in the backward pass, with the cotangents of its results; a result that nothing depends on has no cotangent.
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
  // Adds a gradient op with the node's attributes, whose results have the shapes and types of the tensors in `like`.
  std::vector<Tensor> grad(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& like) const;
};

class FactorTable;
class SameRows;

// What a node becomes in a plan.
enum class Becomes : std::uint8_t {
  instruction,  // a kernel or a collective
  alias,        // its operand: the result has the same elements in the same order
  other,        // a value from outside, a body that has rules of its own, or a layout that does not run
};

// What bounds a kernel, which determines the share of the hardware's peak rates that it reaches.
enum class KernelKind : std::uint8_t {
  product,      // matrix product
  attention,
  elementwise,  // reads and writes sequentially
  norm,         // makes two or more passes over its rows
  rows,         // gathers or scatters rows by index
};

// The work of a kernel on one device.
struct Work {
  std::string_view op = "copy";  // the op's name
  KernelKind kind = KernelKind::elementwise;
  DType dtype = DType::float32;  // of the arithmetic
  double flops = 0;              // of matrix products and attention; other kernels take longer for their memory traffic
  double bytes = 0;              // read and written
  double rows = 0, columns = 0, depth = 0;  // sizes of one matrix product of a batch
  Rounded rounded = Rounded::none;          // what the operands of a product are quantized to
  double rounded_values = 0;                // number of operand elements that are quantized first
};

// Returns an empty string if the operands and results, whose counts are already checked, fit each other; otherwise what they do not fit.
using ShapeRule = std::string (*)(const NodeView&);
// Gives the factors of the node's dims; null for an op that occurs only in regions or is placed by a rule of its own.
using FactorRule = void (*)(const NodeView&, FactorTable&);
// The VJP: returns the cotangents of the operands, absent for an operand that has none; null for an op that nothing is differentiated
// through.
using GradientRule = std::vector<Tensor> (*)(const Vjp&);
// Returns the flops and matrix sizes of a node on one device's shapes; null if they follow from the factors.
using WorkRule = Work (*)(const NodeView&);
// The share of an operand that a kernel reads; null if it reads all of each.
using PartRule = double (*)(const NodeView&, std::size_t operand);

// Whether the op's kernels can write this result in place, over this operand if it has the result's type and shape: they go element by
// element, or read all that they need of a row before they write it.
using PlaceRule = bool (*)(std::size_t operand, std::size_t result);
// Says which of the node's values have the same rows, and which value counts these; see counted_rows.h.
using RowsRule = void (*)(const Node&, SameRows&);

// An inclusive range of counts.
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
  Attributes (*attributes)();  // returns the op's type of attributes, at their defaults
  Counts takes;                // number of operands
  Counts gives;                // number of results
  ShapeRule shapes;
  FactorRule factors;
  GradientRule gradient;
  Becomes becomes = Becomes::instruction;
  bool keeps_dims = false;       // the operands' dims carry over to the result, so a layout wanted of the result is wanted of them
  bool keeps_parameter = false;  // applied to a parameter, it gives that parameter in another type or shape
  bool in_any_order = false;     // element by element, in the same way in any order of the dims
  bool is_cheap = false;         // element by element; computing the result takes about as much memory traffic as reading it
  // Across several devices: the collective that the op is, see collective_of; or whether the op stands for collectives and local kernels
  // and is split into them before it runs.
  std::optional<ReshardOf::Kind> collective = std::nullopt;
  bool is_split = false;
  bool is_ragged = false;  // a collective of which the router decides how much is sent
  KernelKind kernel = KernelKind::elementwise;
  WorkRule work = nullptr;
  int looked_up = -1;  // the operand that is read only in part: as many bytes as the op writes
  PartRule part_read = nullptr;
  int added_to = -1;   // where an optional extra operand stands: what the first result is added to, see partition/fuse_sums.h
  PlaceRule lies_in = nullptr;  // null if it can be only the operand at added_to
  int sums_wide = -1;           // the result that is accumulated in float32 whatever its type
  int applied = -1;             // the operand that is the gradient by which the op updates a parameter
  RowsRule rows = nullptr;
};

template <typename T>
Attributes blank() {
  return T{};
}
inline constexpr FactorRule kNotSpread = nullptr;
inline constexpr GradientRule kNoGradient = nullptr;

inline constexpr int kOps = static_cast<int>(Op::count_of_ops);
const OpFacts& facts_of(Op op);

// The collective that the devices of a group carry out in this node. Any other node is a local kernel: it touches only the memory of its
// own device.
std::optional<ReshardOf::Kind> collective_of(Op op, const Attributes& attributes);
inline std::optional<ReshardOf::Kind> collective_of(const Node& node) { return collective_of(node.op, node.attributes); }

// Whether a node's result has the elements of its operand, in the same order.
inline bool is_alias(const Node& node) { return facts_of(node.op).becomes == Becomes::alias; }

// The node's result at OpFacts::sums_wide; -1 if it has none.
ValueId summed_wide(const Node& node);

// Whether the node has the extra operand at OpFacts::added_to.
bool adds(const Node& node);

// What the node's operands and results do not fit; empty if they fit.
std::string problem_of(const NodeView& view);

}  // namespace moesh::graph
