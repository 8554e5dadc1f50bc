// The graph of a model on global shapes: values, the nodes that make them, and the layouts that are asked of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "graph/chosen_keys.h"
#include "graph/doubly_stochastic.h"
#include "graph/op.h"
#include "graph/pooling.h"
#include "graph/rotation.h"
#include "sharding/constraint.h"
#include "sharding/dispatch.h"
#include "sharding/role.h"
#include "sharding/spec.h"

namespace moesh::graph {

using ValueId = std::int32_t;
using NodeId = std::int32_t;

// Of a value: keeps sums of bytes over a whole model below 2^63.
inline constexpr double kMostElements = 1e15;

struct Initializer {
  // log_uniform: logarithms of numbers up to 16. turns: 0, 1, 2, ... and, after so many numbers, again from 0 on
  enum class Kind : std::uint8_t { zeros, ones, normal, log_uniform, fan_in, turns };
  Kind kind = Kind::fan_in;
  std::int64_t fan_in = 1;   // the number of inputs that one output sums; of turns, how many numbers there are
  double divisor = 1;        // a further divisor of the standard deviation, or of ones
  bool has_tails = false;    // of fan_in: drawn from a whole normal, not from one that is cut at two standard deviations
};

using sharding::Role;

// What the operands of a product are quantized to, if anything: each operand is scaled and rounded to this type first. Planned, but not run
// yet.
enum class Rounded : std::uint8_t { none, int8, float8 };

struct ParameterOf {
  enum class Labelled : std::uint8_t {
    each_dim,
    in_a_stack,  // has no label of its own: listed without labels, but in a stack of layers with the stack's
    never,       // does not take its stack's labels either
  };
  Labels labels;
  Initializer initializer;
  Role role = Role::none;
  Labelled labelled = Labelled::each_dim;
  int first = 0;  // the original position of the dim that is stored first, see partition/stack_first.h
  bool stacks_in_front = false;  // the dims of a stack stand before its own, whatever the stack says
};
struct InputOf {
  enum class Kind : std::uint8_t {
    value,   // in a body, a value of the enclosing graph; else any other input
    batch,   // tokens, one row per row of the batch
    state,   // kept from run to run; the result of the same name is its next value
    moment,  // optimizer state
    number,  // a few numbers for a step: rates, factors, keys of random draws
  };
  Labels labels;
  Kind kind = Kind::value;
  int first = 0;  // as for a parameter
};
struct EinsumOf {
  std::string equation;  // "bsm,mh->bsh"
  Rounded rounded = Rounded::none;
  // The second operand may be larger than what is read of it: so many indices of a dim, beginning with one. 0: all.
  int part_dim = 0;
  std::int64_t part_begin = 0, part_size = 0;
};
struct UnaryOf {
  Unary function = Unary::silu;
  double a = 0;  // scale, offset, or clamp's low
  double b = 0;  // clamp's high

  bool operator==(const UnaryOf&) const = default;
};
struct BinaryOf {
  Binary function = Binary::add;

  bool operator==(const BinaryOf&) const = default;
};
// An op of a chain. Operand numbers count the operands of the chain and, after them, the results of its steps in order.
struct ChainStep {
  enum class Kind : std::uint8_t { unary, unary_grad, binary, cast };
  Kind kind = Kind::unary;
  UnaryOf unary = {};    // for unary_grad too
  BinaryOf binary = {};
  DType dtype = DType::float32;  // of the result
  std::vector<int> operands;

  bool operator==(const ChainStep&) const = default;
};
// `results` names the steps that make the chain's results, which other steps may read too. If it is empty, the last step makes the only
// result.
struct ChainOf {
  std::vector<ChainStep> steps;
  std::vector<int> results = {};

  std::size_t result_count() const { return std::max<std::size_t>(1, results.size()); }
  std::size_t step_of(std::size_t result) const { return results.empty() ? steps.size() - 1 : static_cast<std::size_t>(results[result]); }
};
struct BroadcastOf {
  std::vector<int> dims;  // for each dim of the operand, the result's dim
};
struct ReduceOf {
  Reduction function;
  std::vector<int> dims;
};
struct TransposeOf {
  std::vector<int> order;
};
struct SliceOf {
  int dim = 0;
  std::int64_t begin = 0;
  std::int64_t size = 0;
};
struct ConcatOf {
  int dim = 0;
};
struct PadOf {
  int dim = 0;
  std::int64_t before = 0;
  std::int64_t after = 0;
};
struct FillOf {
  double value = 0;
};
struct RmsNormOf {
  double epsilon = 1e-5;
  std::int64_t width = 0;  // of whole rows, if rows are sharded; else 0
};
struct AttentionOf {
  std::int64_t window = 0;    // number of keys that a query sees; 0: all before it
  std::int64_t chunk = 0;     // a query sees only keys in its own chunk of this many positions; 0: no chunks
  double score_scale = 1;     // multiplies query times key
  double soft_cap = 0;        // 0: none
  bool float32_softmax = false;  // if false, products take the exponentials in the operands' type; scores and sums are in the wide type
  // Queries that see keys up to their own: the number of shards of a row among which its order balances them; 1: rows are in order.
  // 0: all queries see as many keys.
  std::int64_t balanced_over = 0;
  bool keys_by_place = false;  // a key that some query sees has its index as its place, as in a KV cache
  bool is_sparse = false;      // an operand says which keys a query sees
  // The last so many keys are pools. A window never hides them; where there are pools, the operand says only which of these a query sees.
  std::int64_t pools = 0;
  std::int64_t tokens_of_pool = 0;  // of pools by place: the first is of so many places from 0 on, and so on; 0: they lie anywhere
};
struct CrossEntropyOf {
  double z_loss = 0;
};
struct VocabLossOf {
  double z_loss = 0;
  bool by_token = false;  // the table is [V, M], not [M, V]
  double scale = 1;       // of the products that logits are made of
  double soft_cap = 0;    // logits are soft_cap * tanh(scale * product); 0: none
};
// What a loss with so many results gives besides the loss: the last of an even number is the part of it that the z-loss makes; of more
// than two, the second and the third are the gradients of x and of the table.
constexpr bool gives_z_loss(std::size_t results) { return results % 2 == 0; }
constexpr bool gives_gradients(std::size_t results) { return results > 2; }

struct TopKOf {
  enum class Weights : std::uint8_t { softmax_of_chosen, chosen };
  std::int64_t k = 1;
  Weights weights = Weights::softmax_of_chosen;
  bool normalize = false;
  double normalize_epsilon = 0;
  double scale = 1;
  std::int64_t groups = 0;       // 0: no groups
  std::int64_t chosen_groups = 0;
  int group_score_terms = 2;     // a group's score is the sum of this many best scores
};
// Expert e is drawn with a probability proportional to (e + 1)^-skew.
struct DrawOf {
  std::int64_t experts = 1;
  double skew = 0;
};
struct SpreadOf {
  std::int64_t experts = 1;
};
struct CacheWriteOf {
  bool wraps = false;      // slots are counted on past the last one, which the first one follows
  bool skips = false;      // rows whose slot is kNoSlot are not written
  std::int64_t pools = 0;  // the last so many slots are for the second rows, whose slots are counted from the first of these
};
struct SlotMaskOf {
  std::int64_t experts = 1;
  std::int64_t capacity = 1;  // slots per expert for each row of the batch
};
using ConstraintOf = sharding::Constraint;
struct StageStateOf {
  std::int64_t stages = 1;
};

struct Graph;

// A loop over equal layers, or a block of layers that run once. Operands: the carried values, then values that all iterations share, then
// stacked values, of which each iteration gets its slice. Results: the carried values, then the other results of the iterations, stacked.
struct RepeatOf {
  std::shared_ptr<const Graph> body;
  std::vector<std::int64_t> sizes;  // of the stacked dims
  Labels labels;                    // of the stacked dims
  int carried = 0;
  int shared = 0;
  std::vector<int> slices;  // position of the stacked dims in each stacked operand
  std::vector<int> stacks;  // position of the stacked dims in each stacked result
  bool reverse = false;     // from the last iteration to the first
  std::vector<ValueId> saved;  // values of the body that the last results hand to the backward pass

  std::int64_t count() const { return elements(sizes); }
  bool is_block() const { return sizes.empty(); }  // runs once, and stacks nothing
};

struct GroupedMatmulOf {
  bool transpose = false;  // weights[E, N, K]
  Rounded rounded = Rounded::none;
};
struct GroupedOuterOf {
  Rounded rounded = Rounded::none;
};

// Work of one device with explicit collectives. The body's inputs and results are the shards of the region's, in order; its values have the
// shapes of one device, and their specs say only along which axes they differ between devices (Spec::own).
struct RegionOf {
  sharding::Dispatch strategy = sharding::Dispatch::local;
  std::shared_ptr<const Graph> body;
  std::vector<sharding::Spec> operands;  // required layouts of the operands
  std::vector<sharding::Spec> results;   // layouts of the results, partial sums included
  std::shared_ptr<const mesh::Mesh> written_for;
  // Values of the body that the last results hand to the backward pass: the rows of all devices, concatenated. A device may have fewer rows
  // than it has room for.
  std::vector<ValueId> saved = {};
  bool overlaps = false;  // its collectives are to run beside its products, see partition/overlap.h
};

// The devices that differ only in these axes, in the order of their coordinates, with the first axis major.
struct GroupOf {
  sharding::AxisList axes;
  std::int64_t members = 1;
  std::int64_t choices = 1;  // slots per token, for ops that derive a row's token from its slot
  bool back = false;         // exchange_rows only: the way back
  std::int64_t experts = 1;  // among which a token chooses, and those of them that a device has: what it is expected to send
  std::int64_t experts_here = 1;
};

// Keeps at most `limit` rows and drops the later ones; 0 keeps all. Slots are in the order of experts, then of tokens; rows of an exchange
// in the order of source devices, then of experts.
struct SortSlotsOf {
  std::int64_t limit = 0;
};

// One collective, or a slice, on the way from one layout to another.
struct ReshardOf {
  enum class Kind : std::uint8_t { slice, all_gather, all_to_all, reduce_scatter, all_reduce, permute };
  Kind kind = Kind::slice;
  sharding::AxisList axes;  // the axes in which the devices of a group differ
  int from = -1;            // the dim that the axes shard before it
  int to = -1;              // the dim that they shard after it; -1: none, or several dims
};

// What an update is told about the step: the elements of a vector.
enum class UpdateNumber : std::uint8_t {
  rate,
  step,     // its number, starting at 1
  factor,   // gradients and directions are scaled by it first
  applied,  // 1, or 0 for a step that is skipped
};
inline constexpr std::int64_t kUpdateNumbers = 4;

struct AdamOf {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double mu_decay = 0.9;  // beta1 and beta2 as numbers of the moments' types
  double nu_decay = 0.95;
  double epsilon = 1e-8;
  double epsilon_root = 0;
  double weight_decay = 0.1;
  bool nesterov = false;
  bool pax = false;  // bias correction folded into the decay rates, as Pax does
};
struct SgdOf {
  double weight_decay = 0;
};
// Nesterov momentum: both terms of the direction are bias-corrected.
struct MomentumOf {
  double beta = 0.95;
  double decay = 0.95;  // beta as a number of mu's type
};
// For each microbatch, the bias of an expert with fewer tokens than its layer's mean grows by the rate, and that of an expert with more
// shrinks by it. The dims other than that of the experts are the layers.
struct BalanceOf {
  double rate = 0;
  int experts_dim = 0;
};
// Of a head whose highest score s is above the threshold t, queries and keys are multiplied so that their products shrink by t / s. The
// first `halved` elements of its last dim, which queries and keys both have, are multiplied by the square root. The rest is multiplied by
// the whole, if only queries have it, or kept.
struct ClipOf {
  double threshold = 100;
  std::vector<int> dims;  // for each dim of the scores, the weight's dim
  std::int64_t halved = 0;
  bool scales_rest = false;
};

using OneOfAttributes =
    std::variant<std::monostate, ParameterOf, InputOf, EinsumOf, UnaryOf, BinaryOf, ChainOf, BroadcastOf, ReduceOf, TransposeOf, SliceOf,
                 ConcatOf, PadOf, FillOf, AdamOf, SgdOf, MomentumOf, BalanceOf, ClipOf, RmsNormOf, RopeOf, TemperOf, AttentionOf,
                 IndexScoresOf, ChooseKeysOf, CrossEntropyOf, VocabLossOf, DrawOf, TopKOf, SpreadOf, SlotMaskOf, CacheWriteOf, ConstraintOf,
                 StageStateOf, RepeatOf, RegionOf, GroupedMatmulOf, GroupedOuterOf, ReshardOf, GroupOf, SortSlotsOf, DoublyStochasticOf,
                 WindowsOf, NewWindowsOf, WindowRowsOf, ChosenRowsOf>;
// Its copies are written out, in attributes.cc: made anew in every source, they would take a tenth of the time of a build.
struct Attributes : OneOfAttributes {
  using OneOfAttributes::OneOfAttributes;
  Attributes();
  Attributes(const Attributes&);
  Attributes(Attributes&&) noexcept;
  Attributes& operator=(const Attributes&);
  Attributes& operator=(Attributes&&) noexcept;
  ~Attributes();
};

// What a node is for. A forward node that is recomputed for the backward pass stays a node of the forward pass.
enum class Phase : std::uint8_t { forward, backward, update };

struct Node {
  Op op = Op::input;
  std::string path;  // "decoder/layers/self_attention/query"
  std::string tag;   // the name of the result in remat policies; usually empty
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  Attributes attributes;
  Phase phase = Phase::forward;
};

struct Value {
  Shape shape;
  DType dtype = DType::float32;
  NodeId producer = -1;
  sharding::Spec spec = {};  // set by the partitioner; no dims: whole on every device
};

// Bytes of the whole value, however it is sharded.
inline std::int64_t bytes_of(const Value& value) { return elements(value.shape) * size_of(value.dtype); }

// Whether shape, type and layout are the same, so that one can be computed in the other's buffer.
inline bool is_alike(const Value& a, const Value& b) { return a.shape == b.shape && a.dtype == b.dtype && a.spec == b.spec; }

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;  // in topological order
  std::vector<ValueId> results;
  std::vector<std::string> result_names;  // of the first results, which have names; empty in bodies

  const Value& value(ValueId id) const { return values[static_cast<std::size_t>(id)]; }
  const Node& node(NodeId id) const { return nodes[static_cast<std::size_t>(id)]; }
  const Node& producer_of(ValueId id) const { return node(value(id).producer); }
};

// Whether a node stands for a value from outside the graph.
inline bool is_root(const Node& node) { return node.op == Op::input || node.op == Op::parameter; }

inline bool is_input(const Node& node, InputOf::Kind kind) {
  const auto* of = std::get_if<InputOf>(&node.attributes);
  return of != nullptr && of->kind == kind;
}

// The body of a repeat or a region; null for other nodes.
const Graph* body_of(const Node& node);

// The index of the result with that name; -1 if there is none.
int find_result(const Graph& graph, std::string_view name);

std::string_view name_of(Op op);
std::string_view name_of(Unary function);
std::string_view name_of(Binary function);
std::string_view name_of(Reduction function);
std::string_view name_of(Phase phase);
std::string_view name_of(ReshardOf::Kind kind);  // "all-gather"
std::string_view name_of(sharding::Dispatch strategy);  // "all-to-all"

}  // namespace moesh::graph
