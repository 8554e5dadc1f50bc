// Attention, and the KV caches that it reads when tokens are generated one by one.
// Shape suffixes: B rows, S queries, T keys, H heads, D a head's width.
#include <algorithm>
#include <numeric>

#include "graph/ops/ops.h"
#include "graph/ops/table.h"
#include "graph/work.h"

namespace moesh::graph::ops {
namespace {

// query, key, value, order and segments [of the queries, then order and segments of the keys] [, chosen keys] [, sinks].
struct Inputs {
  std::size_t count;
  bool is_sparse;

  std::size_t others() const { return count - (is_sparse ? 1 : 0); }
  bool has_key_tokens() const { return others() >= 7; }
  bool has_sinks() const { return others() == 6 || others() == 8; }
  std::size_t chosen() const { return has_key_tokens() ? 7 : 5; }
};

Inputs inputs_of(const NodeView& v, std::size_t count) { return {count, v.of<AttentionOf>().is_sparse}; }
Inputs forward_inputs(const NodeView& v) { return inputs_of(v, v.operands()); }
Inputs backward_inputs(const NodeView& v) { return inputs_of(v, v.operands() - 1); }

bool inputs_fit(const NodeView& v, Inputs inputs) {
  const Shape& q = v.operand(0).shape;
  const Shape& k = v.operand(1).shape;
  const Shape& value = v.operand(2).shape;
  if (q.size() != 4 || k.size() != 4 || value.size() != 4) return false;
  const bool heads_fit = k[2] > 0 && q[2] % k[2] == 0 && value[2] == k[2];
  if (!heads_fit || k[0] != q[0] || q[3] != k[3] || Shape{value[0], value[1]} != Shape{k[0], k[1]}) return false;
  for (std::size_t i = 3; i < 5; ++i) {
    if (v.operand(i).shape != Shape{q[0], q[1]}) return false;
  }
  for (std::size_t i = 5; inputs.has_key_tokens() && i < 7; ++i) {
    if (v.operand(i).shape != Shape{k[0], k[1]}) return false;
  }
  const std::int64_t pools = v.of<AttentionOf>().pools;
  if (v.of<AttentionOf>().tokens_of_pool < 0) return false;
  if (pools < 0 || pools > k[1] || (pools > 0 && !inputs.has_key_tokens())) return false;
  if (inputs.is_sparse && !are_chosen_keys(v.operand(inputs.chosen()), {q[0], q[1], pools > 0 ? pools : k[1]})) return false;
  return !inputs.has_sinks() || v.operand(inputs.count - 1).shape == Shape{q[2]};
}

bool is_output(const NodeView& v, const Value& out) {
  const Shape& q = v.operand(0).shape;
  return out.shape == Shape{q[0], q[1], q[2], v.operand(2).shape[3]} && out.dtype == v.operand(0).dtype;
}

bool are_scores(const NodeView& v, const Value& highest) {
  return highest.shape == first_sizes(v.operand(0).shape, 3) && highest.dtype == DType::float32;
}

std::string attention_shapes(const NodeView& v) {
  const bool fits = inputs_fit(v, forward_inputs(v)) && is_output(v, v.result(0)) && (v.results() == 1 || are_scores(v, v.result(1)));
  return fits ? "" : "queries [B, S, H, D], keys and values [B, T, H, D], tokens [B, S]";
}

std::string attention_grad_shapes(const NodeView& v) {
  const Inputs inputs = backward_inputs(v);
  const bool fits = inputs_fit(v, inputs) && is_output(v, v.operand(inputs.count)) &&
                    v.results() == (inputs.has_sinks() ? 4u : 3u) && is_like(v.operand(0), v.result(0)) &&
                    is_like(v.operand(1), v.result(1)) && is_like(v.operand(2), v.result(2));
  return fits ? "" : "what attention takes, and its cotangent";
}

// The largest number of keys of single tokens that a query sees.
double keys_in_reach(const NodeView& v) {
  const auto& of = v.of<AttentionOf>();
  double keys = static_cast<double>(v.operand(1).shape[1] - of.pools);
  if (of.window > 0) keys = std::min(keys, static_cast<double>(of.window));
  if (of.chunk > 0) keys = std::min(keys, static_cast<double>(of.chunk));
  return keys;
}

// The pools that some query sees: a single new token sees all that are kept, those of a prompt the pools that it fills.
double pools_in_reach(const NodeView& v) {
  const auto& of = v.of<AttentionOf>();
  const std::int64_t queries = v.operand(0).shape[1];
  const bool is_prompt = of.tokens_of_pool > 0 && queries > 1;
  return static_cast<double>(is_prompt ? std::min(of.pools, queries / of.tokens_of_pool) : of.pools);
}

// The average number of keys that a query sees: those of a whole row or prompt up to its own; a single new token sees all that are kept.
double keys_of_a_query(const NodeView& v) {
  const std::int64_t queries = v.operand(0).shape[1];
  if (queries <= 1) return keys_in_reach(v) + pools_in_reach(v);
  return pairs_seen(queries, v.of<AttentionOf>()) / static_cast<double>(queries) + pools_in_reach(v) / 2;
}

// The share of keys and values that some query sees.
double keys_read(const NodeView& v, std::size_t operand) {
  const std::int64_t queries = v.operand(0).shape[1], keys = v.operand(1).shape[1];
  const bool are_keys = operand == 1 || operand == 2;
  if (!are_keys || queries >= keys - v.of<AttentionOf>().pools) return 1;
  return ((queries > 1 ? static_cast<double>(queries) : keys_in_reach(v)) + pools_in_reach(v)) / static_cast<double>(keys);
}

// Queries may be sharded along their length, in which case each device reads all keys; heads may be sharded as far as the key heads can be.
void spread_dims(const NodeView& v, Inputs inputs, bool backward, FactorTable& table) {
  const Shape& q = v.operand(0).shape;
  const Shape& k = v.operand(1).shape;
  const int b = table.factor(q[0]);
  const int s = table.factor(q[1]);
  const bool one_key_head = k[2] == 1;  // which all query heads read, on every device
  const int h = table.factor(one_key_head ? q[2] : k[2], true);
  const std::vector<int> queries{b, s, h, kWhole};
  const std::vector<int> keys{b, kWhole, one_key_head ? kWhole : h, kWhole};
  table.takes(queries).takes(keys).takes(keys).takes({b, s}).takes({b, s});
  if (inputs.has_key_tokens()) table.takes({b, kWhole}).takes({b, kWhole});
  if (inputs.is_sparse) table.takes({b, s, kWhole});
  if (inputs.has_sinks()) table.takes({h});
  if (backward) {
    table.takes(queries).gives(queries).gives(keys).gives(keys);
    if (inputs.has_sinks()) table.gives({h});
  } else {
    table.gives(queries);
    if (v.results() > 1) table.gives({b, s, h});
  }
  const double group = one_key_head ? 1 : static_cast<double>(q[2]) / static_cast<double>(k[2]);
  const auto width = static_cast<double>(q[3]), value_width = static_cast<double>(v.operand(2).shape[3]);
  // Forward: the scores, and their product with the values. Backward: the scores again, and the cotangents of probabilities, queries, keys
  // and values.
  const double multiplied = backward ? 3 * width + 2 * value_width : width + value_width;
  table.flops(2 * group * keys_of_a_query(v) * multiplied);
}

void attention_factors(const NodeView& v, FactorTable& table) { spread_dims(v, forward_inputs(v), false, table); }
void attention_grad_factors(const NodeView& v, FactorTable& table) { spread_dims(v, backward_inputs(v), true, table); }

std::vector<Tensor> attention_gradient(const Vjp& v) {
  const bool sinks = Inputs{v.operands.size(), v.of<AttentionOf>().is_sparse}.has_sinks();
  std::vector<Tensor> inputs = v.operands;
  inputs.push_back(v.dy());
  std::vector<Tensor> like(v.operands.begin(), v.operands.begin() + 3);
  if (sinks) like.push_back(v.operands.back());
  std::vector<Tensor> made = v.grad(Op::attention_grad, inputs, like);
  std::vector<Tensor> cotangents(v.operands.size());
  for (std::size_t i = 0; i < 3; ++i) cotangents[i] = made[i];
  if (sinks) cotangents.back() = made.back();
  return cotangents;
}

std::string highest_shapes(const NodeView& v) {
  const Shape &from = v.operand(0).shape, &to = v.result(0).shape;
  const bool fits = from.size() == 3 && to.size() == 3 && to[2] == from[2] && is_floating(v.operand(0).dtype) &&
                    v.operand(0).dtype == v.result(0).dtype && to[0] > 0 && to[1] > 0 && from[0] % to[0] == 0 && from[1] % to[1] == 0;
  return fits ? "" : "numbers [A, B, C] in pieces of equal size";
}

// What is one piece has to be whole.
void highest_factors(const NodeView& v, FactorTable& table) {
  const Shape &from = v.operand(0).shape, &to = v.result(0).shape;
  const auto pieces = [&](std::size_t dim) { return to[dim] == 1 ? kWhole : table.factor(std::gcd(from[dim], to[dim]), true); };
  const int a = pieces(0), b = pieces(1), c = table.factor(from[2]);
  table.takes({a, b, c}).gives({a, b, c});
}

// Whether the rows have slots, and fit the cache.
bool are_written(const Value& rows, const Value& slots, const Value& cache) {
  if (cache.shape.size() < 2 || rows.shape.size() != cache.shape.size()) return false;
  Shape wanted = cache.shape;
  wanted[1] = rows.shape[1];
  return rows.shape == wanted && slots.shape == first_sizes(wanted, 2) && rows.dtype == cache.dtype;
}

std::string cache_write_shapes(const NodeView& v) {
  const Value& cache = v.operand(0);
  bool fits = is_like(cache, v.result(0)) && v.operands() % 2 == 1;
  for (std::size_t i = 1; fits && i < v.operands(); i += 2) fits = are_written(v.operand(i), v.operand(i + 1), cache);
  const std::int64_t pools = v.of<CacheWriteOf>().pools;
  fits = fits && pools >= 0 && pools <= cache.shape[1] && (pools > 0) == (v.operands() > 3);
  return fits ? "" : "a cache [B, T, ...] with rows [B, S, ...] and slots [B, S]";
}

// The dims of slots and of new tokens are whole; the batch and the dims of a token's data may be sharded.
void cache_write_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> cache = table.own_but(v.operand(0).shape, {1});
  table.takes(cache);
  for (std::size_t i = 1; i < v.operands(); i += 2) table.takes(cache).takes({cache[0], kWhole});
  table.gives(cache).in_place();
}

}  // namespace

const OpFacts kAttention{.name = "attention",
                         .attributes = blank<AttentionOf>,
                         .takes = {5, 9},
                         .gives = {1, 2},
                         .shapes = attention_shapes,
                         .factors = attention_factors,
                         .gradient = attention_gradient,
                         .kernel = KernelKind::attention,
                         .part_read = keys_read};
const OpFacts kAttentionGrad{.name = "attention_grad",
                             .attributes = blank<AttentionOf>,
                             .takes = {6, 10},
                             .gives = {3, 4},
                             .shapes = attention_grad_shapes,
                             .factors = attention_grad_factors,
                             .gradient = kNoGradient,
                             .kernel = KernelKind::attention,
                             .part_read = keys_read};
const OpFacts kHighest{.name = "highest",
                       .attributes = blank<std::monostate>,
                       .takes = {1},
                       .gives = {1},
                       .shapes = highest_shapes,
                       .factors = highest_factors,
                       .gradient = kNoGradient};
const OpFacts kCacheWrite{.name = "cache_write",
                          .attributes = blank<CacheWriteOf>,
                          .takes = {3, 5},
                          .gives = {1},
                          .shapes = cache_write_shapes,
                          .factors = cache_write_factors,
                          .gradient = kNoGradient,
                          .keeps_dims = true,
                          .lies_in = over_first};

}  // namespace moesh::graph::ops
