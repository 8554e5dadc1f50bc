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
#include "sharding/constraint.h"
#include "sharding/role.h"
#include "sharding/spec.h"

namespace moesh::graph {

using ValueId = std::int32_t;
using NodeId = std::int32_t;

enum class Op : std::uint8_t {
  input,           // a value from outside: the batch, or what a body is given
  parameter,       // trained
  einsum,          // two operands [, what is added to], letters name dims
  unary,           // elementwise, see Unary
  binary,          // elementwise on equal shapes, see Binary
  cast,
  broadcast,       // dims of the operand placed among those of the result
  reduce,          // over dims, see Reduce
  reshape,
  transpose,
  slice,           // a range of one dim
  concat,          // along one dim
  pad,             // zeros around a range of one dim
  fill,            // a constant in every element
  softmax,         // over the last dim
  rms_norm,        // x, scale: over the last dim
  rope,            // x, positions: rotates the last dim
  temper,          // positions[B, S]: by how much queries that see ever more are to grow, float32; see TemperOf
  attention,       // query, key, value, order, segments [, those of the keys, where they are of other tokens] [, sinks]
  cache_write,     // cache[B, T, ...], rows[B, S, ...], slots[B, S]: the cache with the rows in these of its T slots
  embed,           // table, tokens
  positions,       // segments[B, S]: how many positions count, those of a segment other than 0, float32
  cross_entropy,   // logits, targets, segments: loss summed over the positions that count
  random_scores,   // key[2], numbers[B, S] of the tokens: scores whose largest are experts drawn at random, [B, S, E]; see DrawOf
  top_k,           // scores that choose [, scores that the weights come from]: weights and expert ids of each token
  spread,          // weights, ids: weights laid out over all experts
  slot_mask,       // ids [, weights]: which slot of which expert a token takes, [B, S, E, C]; see slots.h
  slots,           // ids[B, S, K]: the slot that each choice takes, expert * C + place, or -1 where it is dropped
  fill_slots,      // x[B, S, M], slots [, weights[B, S, K]]: each slot's token, weighted, [E, B, C, M]
  empty_slots,     // y[E, B, C, M], slots [, weights]: what is in each token's slots, weighted and summed [B, S, M]
  slot_products,   // y[E, B, C, M], slots, z[B, S, M]: of each choice, what is in its slot times z, summed over M [B, S, K]
  expert_load,     // ids[B, S, K]: how many tokens of each row chose each expert [B, E], float32
  grouped_matmul,  // rows[R, K], weights[E, K, N], sizes [, what is added to]: each expert's rows times its weights
  grouped_bias,    // rows[R, N], bias[E, N], sizes: each expert's rows plus its bias
  constraint,      // the operand, laid out as its labels and the rules say
  stage_state,     // rows regrouped for the stages of a pipeline
  repeat,          // a body run once a layer
  region,          // a body on local shapes with its collectives spelled out
  reshard,         // the operand in another layout; only the partitioner adds it
  vocab_scores,    // logits[B, S, V], targets: the targets' logits [B, S], and of each shard of the vocabulary the logarithm
                   // of its summed exponentials [B, S, shards]
  cross_entropy_of_scores,  // the results of vocab_scores, segments: as cross_entropy
  row_dot,                  // x, y [, scale]: their products summed over the last dim, in the wide type
  rms_norm_of_dots,         // x, scale, row_dot(x, x) of whole rows: as rms_norm, of rows in pieces

  // Only in regions. A slot is one choice of a token, numbered token * K + choice; `sizes` says how many rows each expert
  // has, and so how many of the R rows that there is room for exist. What a group of devices takes part in says GroupOf.
  // A program that runs has fetch_rows and return_rows of one device only: partition/split_region.h says what becomes of others.
  device_index,   // which of the group's devices this is
  gather,         // x[N, ...] of every device of the group, one after the other
  all_sum,        // x, added up over the group
  own_once,       // x on the group's first device, zeros on the others
  sort_slots,     // ids[T, K] [, index]: the slots of the experts here, sorted by expert, order[R]; sizes[E]; how many were
                  // dropped, see SortSlotsOf. The experts here are those from index * E on; all without an index.
  fetch_rows,     // x[T, ...], order, sizes: the row of each slot's token, from whichever device of the group has it
  return_rows,    // rows[R, ...], order, sizes [, weights[R]]: weighted, and added up for each token by the device that has it
  plan_exchange,  // counts[devices, all E], index: of the rows that each device has for each expert, those that fit, alike;
                  // sizes of the experts here; how many of this device's were dropped, see SortSlotsOf
  exchange_rows,  // rows sorted by expert, counts, kept, sizes: each expert's rows to its device, sorted by expert, then by
                  // the device they come from. Or the way back, with zeros for what was dropped.
  list_tokens,    // order, sizes: the tokens that have rows here, ascending, tokens[P]; where the rows of each end, ends[P], in
                  // a list of all rows by token, rows[R]; how many of the P tokens that there is room for exist
  sum_rows,       // rows[R, ...], and of list_tokens rows[R], ends[P] and the number [, weights[R]]: of each token, weighted
                  // and added up in their order, [P, ...]
  scatter_rows,   // sums[P, ...], and of list_tokens tokens[P] and the number: each token's sums to the device that has the
                  // token, which adds them up in the order of devices; zeros for a token without any, [T, ...]

  // Gradients that are ops of their own. The last of their usual operands is the cotangent.
  unary_grad,          // x, dy: dx
  softmax_grad,        // y, dy: dx
  rms_norm_grad,       // x, scale, dy [, what dx is added to]: dx, dscale
  rms_norm_grad_of_dots,  // x, scale, dy, row_dot(x, x), row_dot(x, dy, scale) [, what dx is added to]: as rms_norm_grad
  attention_grad,      // the operands of attention, dy: dquery, dkey, dvalue [, dsinks]
  embed_grad,          // tokens, dy: dtable
  embed_add,           // table, tokens, dy: the table plus dtable
  cross_entropy_grad,  // logits, targets, segments, dsum [, vocab_scores' logarithms]: dlogits
  vocab_loss,          // x[B, S, M], table, targets, segments[, dsum]: cross_entropy of x table[, dx, dtable in x's wide type]. The
                       // table is of x's type, or of the wide one and rounded to x's.
  top_k_grad,          // scores that the weights came from, ids, dweights: dscores
  spread_grad,         // ids, dspread: dweights
  grouped_outer,       // rows[R, K], drows[R, N], sizes: dweights[E, K, N]
  grouped_sum,         // drows[R, N], sizes: dbias[E, N]
  weighted_rows_grad,  // rows[R, M], weights[R], dy[R, M] of each row: drows, dweights

  chain,  // ops on each element of values of one shape, which go through all of them block by block; only the pass adds it

  // Learning. `numbers` are those of UpdateNumber. Where they say that the update is not applied, results are the operands that
  // they are the new values of, bit for bit.
  sum_squares,      // x: a scalar, float32
  adam_update,      // parameter, gradient, mu, nu, numbers: the new parameter, mu and nu, perhaps the sum of the new parameter's squares
  sgd_update,       // parameter, direction, numbers: the new parameter
  momentum_update,  // gradient, mu, numbers: the new mu, and the direction that a parameter moves in
  balance_update,   // a router's bias, load[microbatches, layers, E + 1], numbers: the new bias
};

// `identity` adds no node. `scale` times a; `offset` plus a; `clamp` to [a, b]; `sqrt`, `rsqrt` and `minimum` (with a) serve
// norms; `finite` is 1, or 0 for what is infinite or no number.
enum class Unary : std::uint8_t {
  silu,
  sigmoid,
  gelu,
  relu,
  tanh,
  identity,
  scale,
  offset,
  clamp,
  sqrt,
  rsqrt,
  minimum,
  finite
};
enum class Binary : std::uint8_t { add, subtract, multiply, divide };
enum class Reduction : std::uint8_t { sum };

struct Initializer {
  enum class Kind : std::uint8_t { zeros, ones, normal, fan_in };
  Kind kind = Kind::fan_in;
  std::int64_t fan_in = 1;   // inputs that one output sums
  double divisor = 1;        // further division of the standard deviation
};

using sharding::Role;

// The numbers that a product multiplies, where these are other than its operands: each operand is scaled and rounded to them first.
// Planned, but not run yet.
enum class Rounded : std::uint8_t { none, int8, float8 };

struct ParameterOf {
  Labels labels;
  Initializer initializer;
  Role role = Role::none;
  int first = 0;  // the dim that stands in front here, before it did: see partition/stack_first.h
};
struct InputOf {
  enum class Kind : std::uint8_t {
    value,   // of an enclosing graph, in a body; or what only the program that is given it knows
    batch,   // of tokens, a row of the batch a row
    state,   // kept from run to run: the result of the same name is its next value
    moment,  // of the optimizer
    number,  // a few numbers that a step is told: rates, factors, keys of random draws
  };
  Labels labels;
  Kind kind = Kind::value;
  int first = 0;  // as a parameter's
};
struct EinsumOf {
  std::string equation;  // "bsm,mh->bsh"
  Rounded rounded = Rounded::none;
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
// An op of a chain. Operands are those of the chain and, behind them, what its steps make, in order.
struct ChainStep {
  enum class Kind : std::uint8_t { unary, unary_grad, binary, cast };
  Kind kind = Kind::unary;
  UnaryOf unary = {};    // also of unary_grad
  BinaryOf binary = {};
  DType dtype = DType::float32;  // of what it makes
  std::vector<int> operands;

  bool operator==(const ChainStep&) const = default;
};
// Results are what some steps make, which others may take as well; where none are named, the last step makes the only one.
struct ChainOf {
  std::vector<ChainStep> steps;
  std::vector<int> results = {};

  std::size_t result_count() const { return std::max<std::size_t>(1, results.size()); }
  std::size_t step_of(std::size_t result) const { return results.empty() ? steps.size() - 1 : static_cast<std::size_t>(results[result]); }
};
struct BroadcastOf {
  std::vector<int> dims;  // the result's dim of each of the operand's dims
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
  std::int64_t width = 0;  // of whole rows, for rows in pieces
};
struct RopeOf {
  enum class Kind : std::uint8_t { standard, llama3, yarn };
  Kind kind = Kind::standard;
  bool interleave = false;  // pairs (2i, 2i+1) instead of halves
  double min_timescale = 1;
  double max_timescale = 10000;
  double linear_scaling = 1;
  double factor = 1;  // yarn, llama3
  double beta_fast = 32;
  double beta_slow = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_max_positions = 4096;
  bool truncate = true;
  bool attention_scaling = false;
  double attention_factor = -1;  // of the result; -1: as attention_scaling says
  bool inverse = false;  // turns back: the gradient of turning
};
// 1 + scale * ln(1 + floor((position + 1) / floor)).
struct TemperOf {
  double scale = 0.1;
  double floor = 8192;
};
struct AttentionOf {
  std::int64_t window = 0;    // 0: all that comes before
  std::int64_t chunk = 0;     // of what comes before, that of the own chunk of so many places; 0: there are none
  double score_scale = 1;     // of query times key
  double soft_cap = 0;        // 0: none
  bool float32_softmax = false;  // else products take its exponentials in the operands' type; scores and sums are of the wide one
};
struct CrossEntropyOf {
  double z_loss = 0;
};
struct VocabLossOf {
  double z_loss = 0;
  bool by_token = false;  // the table is [V, M], not [M, V]
};
struct TopKOf {
  enum class Weights : std::uint8_t { softmax_of_chosen, chosen };
  std::int64_t k = 1;
  Weights weights = Weights::softmax_of_chosen;
  bool normalize = false;
  double normalize_epsilon = 0;
  double scale = 1;
  std::int64_t groups = 0;       // 0: no groups
  std::int64_t chosen_groups = 0;
  int group_score_terms = 2;     // best scores summed to a group's score
};
// Expert e is drawn with a probability in proportion to (e + 1)^-skew.
struct DrawOf {
  std::int64_t experts = 1;
  double skew = 0;
};
struct SpreadOf {
  std::int64_t experts = 1;
};
struct SlotMaskOf {
  std::int64_t experts = 1;
  std::int64_t capacity = 1;  // slots an expert has for a row of the batch
};
using ConstraintOf = sharding::Constraint;
struct StageStateOf {
  std::int64_t stages = 1;
};

struct Graph;

// Equal layers: operands are the carried values, then values that all iterations read, then stacked ones, of which an
// iteration gets its slice; results are the carried values, then one of each iteration's other results, stacked.
struct RepeatOf {
  std::shared_ptr<const Graph> body;
  std::vector<std::int64_t> sizes;  // of the stacked dims
  Labels labels;                    // of the stacked dims
  int carried = 0;
  int shared = 0;
  std::vector<int> slices;  // where the stacked dims stand in each stacked operand
  std::vector<int> stacks;  // where they stand in each stacked result
  bool reverse = false;     // from the last iteration to the first
  std::vector<ValueId> saved;  // values of the body that the last results hand to the backward pass

  std::int64_t count() const { return elements(sizes); }
};

struct GroupedMatmulOf {
  bool transpose = false;  // weights[E, N, K]
  Rounded rounded = Rounded::none;
};
struct GroupedOuterOf {
  Rounded rounded = Rounded::none;
};

// Local work with collectives of its own. The body's inputs and results are the shards of the region's, in order; its values
// have the shapes of one device, and their specs say only along which axes devices have values of their own.
struct RegionOf {
  std::string strategy;  // "ring", "all-to-all"
  std::shared_ptr<const Graph> body;
  std::vector<sharding::Spec> operands;  // how they have to lie
  std::vector<sharding::Spec> results;   // how they come; partial sums included
  std::shared_ptr<const mesh::Mesh> written_for;
  // Values of the body that the last results hand to the backward pass: the rows of all devices, one device after the other. A
  // device may have fewer rows than it has room for.
  std::vector<ValueId> saved = {};
};

// The devices that differ in these axes only, in the order of their coordinates, the first axis major.
struct GroupOf {
  sharding::AxisList axes;
  std::int64_t members = 1;
  std::int64_t choices = 1;  // slots a token has, for ops that tell a row's token from its slot
  bool back = false;         // for exchange_rows
};

// At most `limit` rows, unless that is 0. What comes later is dropped: slots by expert, then by token; rows of an exchange by
// the device that they come from, then by expert.
struct SortSlotsOf {
  std::int64_t limit = 0;
};

// One collective, or a slice, on the way from one layout to another.
struct ReshardOf {
  enum class Kind : std::uint8_t { slice, all_gather, all_to_all, reduce_scatter, all_reduce, permute };
  Kind kind = Kind::slice;
  sharding::AxisList axes;  // in which the devices of a group differ
  int from = -1;            // the dim that the axes leave
  int to = -1;              // the dim that they come to
};

// What updates are told of the step: the elements of a vector.
enum class UpdateNumber : std::uint8_t {
  rate,
  step,     // its number, from 1 on
  factor,   // what gradients and directions are multiplied with first
  applied,  // 1, or 0 for a step that is left out
};
inline constexpr std::int64_t kUpdateNumbers = 4;

struct AdamOf {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double mu_decay = 0.9;  // the same two, as numbers of the moments' types
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
// The direction looks ahead as Nesterov does; both of its terms have their bias corrected.
struct MomentumOf {
  double beta = 0.95;
  double decay = 0.95;  // the same, as a number of mu's type
};
// For each microbatch an expert with fewer tokens than its layer's mean gains by the rate, one with more loses. The layers are
// the dims beside that of the experts.
struct BalanceOf {
  double rate = 0;
  int experts_dim = 0;
};

using Attributes =
    std::variant<std::monostate, ParameterOf, InputOf, EinsumOf, UnaryOf, BinaryOf, ChainOf, BroadcastOf, ReduceOf, TransposeOf,
                 SliceOf, ConcatOf, PadOf, FillOf, AdamOf, SgdOf, MomentumOf, BalanceOf, RmsNormOf, RopeOf, TemperOf, AttentionOf,
                 CrossEntropyOf, VocabLossOf, DrawOf, TopKOf, SpreadOf, SlotMaskOf, ConstraintOf, StageStateOf, RepeatOf, RegionOf,
                 GroupedMatmulOf, GroupedOuterOf, ReshardOf, GroupOf, SortSlotsOf>;

// What a node is there for. A node of the forward pass that is run again for the backward pass stays one of the forward pass.
enum class Phase : std::uint8_t { forward, backward, update };

struct Node {
  Op op = Op::input;
  std::string path;  // "decoder/layers/self_attention/query"
  std::string tag;   // the name by which remat policies speak of the result; mostly empty
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  Attributes attributes;
  Phase phase = Phase::forward;
};

struct Value {
  Shape shape;
  DType dtype = DType::float32;
  NodeId producer = -1;
  sharding::Spec spec = {};  // once partitioned; no dims: whole on every device
};

// As a whole, however it lies.
inline std::int64_t bytes_of(const Value& value) { return elements(value.shape) * size_of(value.dtype); }

// The same shape, type and layout: one may be made where the other lies.
inline bool is_alike(const Value& a, const Value& b) { return a.shape == b.shape && a.dtype == b.dtype && a.spec == b.spec; }

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;  // in an order in which they can run
  std::vector<ValueId> results;
  std::vector<std::string> result_names;  // of the results that have one, in order; none in bodies

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

// Where the result of that name stands among the results; -1 when there is none.
int find_result(const Graph& graph, std::string_view name);

std::string_view name_of(Op op);
std::string_view name_of(Unary function);
std::string_view name_of(Binary function);
std::string_view name_of(Reduction function);
std::string_view name_of(Phase phase);
std::string_view name_of(ReshardOf::Kind kind);  // "all-gather"

}  // namespace moesh::graph
