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
#include "graph/rotation.h"
#include "sharding/constraint.h"
#include "sharding/role.h"
#include "sharding/spec.h"

namespace moesh::graph {

using ValueId = std::int32_t;
using NodeId = std::int32_t;

enum class Op : std::uint8_t {
  input,           // a value from outside: the batch, or what a body is given
  parameter,       // a trained weight
  einsum,          // two operands [, addend]; letters name dims
  unary,           // elementwise, see Unary
  binary,          // elementwise on equal shapes, see Binary
  cast,
  broadcast,       // dims of the operand placed among those of the result
  reduce,          // over dims, see Reduction
  reshape,
  transpose,
  slice,           // a range of one dim
  concat,          // along one dim
  pad,             // zeros before and after in one dim
  fill,            // a constant in every element
  softmax,         // over the last dim
  rms_norm,        // x, scale: over the last dim
  rope,            // x, positions: rotates the last dim
  temper,          // positions[B, S]: the factors by which queries grow with what they see, float32; see TemperOf
  attention,       // query, key, value, order, segments [, order and segments of the keys, if those are other tokens] [, what choose_keys
                   // gives] [, sinks]: the values read [, the highest score of each query and head [B, S, H], float32]
  highest,         // x[A, B, C] in pieces of A and B: the highest number of each piece for each C, [pieces of A, pieces of B, C]
  detach,          // the operand; no gradient flows back through it
  index_scores,    // query[B, S, H, D], key[B, T, D], weights[B, S, H], order[B, S]: weighted sums of relu(query key), [B, S, T], wide
  choose_keys,     // scores[B, S, T], order, segments, those of the keys: which keys a query is to see; see ChooseKeysOf, chosen_keys.h
  chosen_rows,     // keys chosen for one query, rows[B, T, ...], ...: those of these keys, [B, K, ...], ..., and then 0, or -1 for int32
  attention_shares,  // query, key[B, T, H, D], chosen keys: each head's softmax over these, summed over heads, [B, S, T] in the wide type
  index_loss,      // scores, attention_shares, chosen keys: the KL divergence of the scores' softmax from the shares, [B, S]
  causal_conv,     // x[B, S, ...], weights[W, ...] [, kept, order, segments]: each channel's weighted sum of a token and of the
                   // W - 1 before it [, what to keep], see delta_rule.h
  delta_rule,      // query, key[B, S, G, D], value[B, S, G, R, V], decay, rate[B, S, G, R], segments [, state, order]: what is read of a
                   // memory that each token decays and corrects, like value [, the state after the tokens], see delta_rule.h
  cache_write,     // cache[B, T, ...], rows[B, S, ...], slots[B, S]: the cache with the rows written to these of its T slots
  embed,           // table, tokens
  positions,       // segments[B, S]: the number of positions that count, which are those in a segment other than 0, float32
  cross_entropy,   // logits, targets, segments: loss summed over the positions that count
  random_scores,   // key[2], token numbers[B, S]: scores [B, S, E] whose largest are experts drawn at random; see DrawOf
  top_k,           // scores to choose by [, scores to take the weights from]: weights and expert ids of each token
  spread,          // weights, ids: the weights laid out over all experts
  slot_mask,       // ids [, weights]: which slot of which expert a token takes, [B, S, E, C]; see slots.h
  slots,           // ids[B, S, K]: the slot that each choice takes, expert * C + place, or -1 if it is dropped
  fill_slots,      // x[B, S, M], slots [, weights[B, S, K]]: each slot's token, weighted, [E, B, C, M]
  empty_slots,     // y[E, B, C, M], slots [, weights]: the contents of each token's slots, weighted and summed [B, S, M]
  slot_products,   // y[E, B, C, M], slots, z[B, S, M]: for each choice, the dot product of its slot's contents and z over M [B, S, K]
  expert_load,     // ids[B, S, K]: how many tokens of each row chose each expert [B, E], float32
  grouped_matmul,  // rows[R, K], weights[E, K, N], sizes [, addend]: each expert's rows times its weights
  grouped_bias,    // rows[R, N], bias[E, N], sizes: each expert's rows plus its bias
  constraint,      // the operand, laid out as its labels and the rules say
  stage_state,     // rows regrouped for the stages of a pipeline
  repeat,          // a body run once per layer
  region,          // a body on local shapes with its collectives spelled out
  reshard,         // the operand in another layout; only the partitioner adds it
  vocab_scores,    // logits[B, S, V], targets: the targets' logits [B, S], and each vocabulary shard's log-sum-exp [B, S, shards]
  cross_entropy_of_scores,  // the results of vocab_scores, segments: the same as cross_entropy
  row_dot,                  // x, y [, scale]: their elementwise product summed over the last dim, in the wide type
  rms_norm_of_dots,         // x, scale, row_dot(x, x) of whole rows: as rms_norm, for rows that are sharded

  // Only in regions. A slot is one choice of a token, numbered token * K + choice; `sizes` gives the number of rows of each expert, and so
  // how many of the R places for rows are filled. GroupOf names the devices that take part. In a program that runs, fetch_rows and
  // return_rows are for one device only: partition/split_region.h splits the others.
  device_index,   // this device's index in the group
  gather,         // x[N, ...] of every device of the group, concatenated (an all-gather)
  all_sum,        // x, summed over the group (an all-reduce)
  own_once,       // x on the group's first device, zeros on the others
  sort_slots,     // ids[T, K] [, index]: the slots of the experts here, sorted by expert, order[R]; sizes[E]; how many were dropped, see
                  // SortSlotsOf. The experts here start at index * E; without an index all experts are here.
  fetch_rows,     // x[T, ...], order, sizes: the row of each slot's token, from whichever device of the group has it
  return_rows,    // rows[R, ...], order, sizes [, weights[R]]: weighted, and summed for each token on the device that has it
  plan_exchange,  // counts[devices, all E], index: of the rows that each device has for each expert, how many fit, in the same shape; sizes
                  // of the experts here; how many rows for these were dropped, see SortSlotsOf
  exchange_rows,  // rows sorted by expert, counts, kept, sizes: sends each expert's rows to its device, where they are sorted by expert,
                  // then by source device (an all-to-all). Or the way back, with zeros for dropped rows.
  list_tokens,    // order, sizes: the tokens that have rows here, ascending, tokens[P]; where each token's rows end, ends[P], in a list of
                  // all rows sorted by token, rows[R]; how many of the P places for tokens are filled
  sum_rows,       // rows[R, ...], and list_tokens' rows[R], ends[P] and number [, weights[R]]: each token's rows, weighted and summed in
                  // the order of the list, [P, ...]
  scatter_rows,   // sums[P, ...], and list_tokens' tokens[P] and number: sends each token's sums to the device that has the token, which
                  // adds them in the order of devices (a reduce-scatter); zeros for a token without any, [T, ...]

  // Gradients that are ops of their own. The cotangent usually follows the operands of the forward op.
  unary_grad,          // x, dy: dx
  softmax_grad,        // y, dy: dx
  rms_norm_grad,       // x, scale, dy [, addend to dx]: dx, dscale
  rms_norm_grad_of_dots,  // x, scale, dy, row_dot(x, x), row_dot(x, dy, scale) [, addend to dx]: as rms_norm_grad
  attention_grad,      // the operands of attention, dy: dquery, dkey, dvalue [, dsinks]
  index_scores_grad,   // query, key, weights, order, dscores: dquery, dkey, dweights
  causal_conv_grad,    // x, weights, dy: dx, dweights
  delta_rule_grad,     // query, key, value, decay, rate, segments, dy: dquery, dkey, dvalue, ddecay, drate
  index_loss_grad,     // scores, attention_shares, chosen keys, dy: dscores
  embed_grad,          // tokens, dy: dtable
  embed_add,           // table, tokens, dy: the table plus dtable
  cross_entropy_grad,  // logits, targets, segments, dsum [, log-sum-exps of vocab_scores]: dlogits
  vocab_loss,          // x[B, S, M], table, targets, segments[, dsum]: cross_entropy of the product of x and the table[, dx, and dtable in
                       // x's wide type]. The table has x's type, or the wide type and is rounded to x's.
  top_k_grad,          // the scores that the weights were taken from, ids, dweights: dscores
  spread_grad,         // ids, dspread: dweights
  grouped_outer,       // rows[R, K], drows[R, N], sizes: dweights[E, K, N]
  grouped_sum,         // drows[R, N], sizes: dbias[E, N]
  weighted_rows_grad,  // rows[R, M], weights[R], each row's dy[R, M]: drows, dweights

  chain,  // elementwise ops on values of one shape, applied to all of them block by block; only partition/chain.h adds it

  // Learning. `numbers` are those of UpdateNumber. If they say that the update is not applied, each result that is a new value equals the
  // operand that it replaces, bit for bit.
  sum_squares,      // x: a scalar, float32
  adam_update,      // parameter, gradient, mu, nu, numbers: the new parameter, mu and nu [, the sum of the new parameter's squares]
  sgd_update,       // parameter, direction, numbers: the new parameter
  momentum_update,  // gradient, mu, numbers: the new mu, and the direction in which a parameter moves
  balance_update,   // a router's bias, load[microbatches, layers, E + 1], numbers: the new bias
  clip_update,      // a weight that makes heads, the highest score of each, numbers: the new weight; see ClipOf
};

// `identity` adds no node. `scale` multiplies by a, `offset` adds a, `clamp` clamps to [a, b]; `sqrt`, `rsqrt` and `minimum` (with a) serve
// norms; `finite` is 1, or 0 for infinities and NaN.
enum class Unary : std::uint8_t {
  silu,
  sigmoid,
  gelu,
  relu,
  tanh,
  exp,
  softplus,
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
  enum class Kind : std::uint8_t { zeros, ones, normal, log_uniform, fan_in };  // log_uniform: logarithms of numbers up to 16
  Kind kind = Kind::fan_in;
  std::int64_t fan_in = 1;   // the number of inputs that one output sums
  double divisor = 1;        // a further divisor of the standard deviation
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
  bool wraps = false;  // slots are counted on past the last one, which the first one follows
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
  std::string strategy;  // "ring", "all-to-all"
  std::shared_ptr<const Graph> body;
  std::vector<sharding::Spec> operands;  // required layouts of the operands
  std::vector<sharding::Spec> results;   // layouts of the results, partial sums included
  std::shared_ptr<const mesh::Mesh> written_for;
  // Values of the body that the last results hand to the backward pass: the rows of all devices, concatenated. A device may have fewer rows
  // than it has room for.
  std::vector<ValueId> saved = {};
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
                 StageStateOf, RepeatOf, RegionOf, GroupedMatmulOf, GroupedOuterOf, ReshardOf, GroupOf, SortSlotsOf>;
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

// Whether a node's result has the elements of its operand, in the same order.
inline bool is_alias(const Node& node) { return node.op == Op::reshape || node.op == Op::constraint || node.op == Op::detach; }

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

}  // namespace moesh::graph
