#include "partition/factors.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/core.h>

#include "base/error.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;

// Collects what an op's dims are.
class Table {
 public:
  Table(const Graph& graph, const Node& node) : graph_(graph), node_(node) {
    made_.linear.assign(node.operands.size(), false);
  }

  const Shape& operand(std::size_t i) const { return graph_.value(node_.operands[i]).shape; }
  const Shape& result(std::size_t i) const { return graph_.value(node_.results[i]).shape; }

  int factor(std::int64_t size, bool even = false) {
    made_.factors.push_back({size, even});
    return static_cast<int>(made_.factors.size()) - 1;
  }
  // A factor for each dim.
  std::vector<int> own(const Shape& shape) {
    std::vector<int> dims;
    for (const std::int64_t size : shape) dims.push_back(factor(size));
    return dims;
  }
  // The same, with these dims whole.
  std::vector<int> own_but(const Shape& shape, const std::vector<int>& whole) {
    std::vector<int> dims = own(shape);
    for (const int dim : whole) dims[static_cast<std::size_t>(dim)] = kWhole;
    return dims;
  }

  Table& takes(std::vector<int> dims) {
    made_.operands.push_back(std::move(dims));
    return *this;
  }
  Table& gives(std::vector<int> dims) {
    made_.results.push_back(std::move(dims));
    return *this;
  }
  Table& linear_in(std::initializer_list<std::size_t> operands) {
    for (const std::size_t i : operands) made_.linear[i] = true;
    return *this;
  }
  Table& linear_together() {
    made_.linear_together = true;
    return *this;
  }
  Table& flops(double each) {
    made_.flops = each;
    return *this;
  }
  Table& in_place() {
    made_.in_place = true;
    return *this;
  }
  Table& anywhere() {
    made_.anywhere = true;
    return *this;
  }
  Table& elementwise() {
    const std::vector<int> dims = own(result(0));
    for (std::size_t i = 0; i < node_.operands.size(); ++i) takes(dims);
    return gives(dims);
  }

  OpFactors take() { return std::move(made_); }

 private:
  const Graph& graph_;
  const Node& node_;
  OpFactors made_;
};

std::vector<int> head(const std::vector<int>& dims, std::size_t count) {
  return {dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(count)};
}

void einsum(const std::string& equation, Table& table) {
  std::map<char, int> letters;
  const std::size_t comma = equation.find(',');
  const std::size_t arrow = equation.find("->");
  const auto dims = [&](const std::string& text, const Shape& shape) {
    std::vector<int> made;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (!letters.contains(text[i])) letters[text[i]] = table.factor(shape[i]);
      made.push_back(letters[text[i]]);
    }
    return made;
  };
  table.takes(dims(equation.substr(0, comma), table.operand(0)));
  table.takes(dims(equation.substr(comma + 1, arrow - comma - 1), table.operand(1)));
  table.gives(dims(equation.substr(arrow + 2), table.result(0)));
  table.linear_in({0, 1}).flops(2).anywhere();
}

// Dims that are merged or split share what their outermost parts have in common; a dim that stays is one factor.
void reshape(Table& table) {
  const Shape& from = table.operand(0);
  const Shape& to = table.result(0);
  std::vector<int> from_dims(from.size(), kWhole);
  std::vector<int> to_dims(to.size(), kWhole);
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < from.size() && j < to.size()) {
    if (from[i] == 1 && to[j] != 1) { ++i; continue; }
    if (to[j] == 1 && from[i] != 1) { ++j; continue; }
    const bool same = from[i] == to[j];
    const int shared = table.factor(std::gcd(from[i], to[j]), !same);
    from_dims[i] = shared;
    to_dims[j] = shared;
    std::int64_t left = from[i++];
    std::int64_t right = to[j++];
    while (left != right) {
      if (left < right) {
        left *= from[i++];
      } else {
        right *= to[j++];
      }
    }
  }
  table.takes(from_dims).gives(to_dims).linear_in({0});
}

void broadcast(const graph::BroadcastOf& of, Table& table) {
  const std::vector<int> dims = table.own(table.result(0));
  std::vector<int> operand;
  for (const int dim : of.dims) operand.push_back(dims[static_cast<std::size_t>(dim)]);
  table.takes(operand).gives(dims).linear_in({0});
}

void reduce(const graph::ReduceOf& of, Table& table) {
  const std::vector<int> dims = table.own(table.operand(0));
  std::vector<int> kept;
  for (std::size_t dim = 0; dim < dims.size(); ++dim) {
    if (std::find(of.dims.begin(), of.dims.end(), static_cast<int>(dim)) == of.dims.end()) kept.push_back(dims[dim]);
  }
  table.takes(dims).gives(kept).linear_in({0});
}

void transpose(const graph::TransposeOf& of, Table& table) {
  const std::vector<int> dims = table.own(table.operand(0));
  std::vector<int> moved;
  for (const int dim : of.order) moved.push_back(dims[static_cast<std::size_t>(dim)]);
  table.takes(dims).gives(moved).linear_in({0});
}

// One dim is cut, joined or widened, so it is whole on both sides.
void along(int dim, std::size_t operands, Table& table) {
  const std::vector<int> dims = table.own_but(table.result(0), {dim});
  for (std::size_t i = 0; i < operands; ++i) table.takes(dims);
  table.gives(dims).linear_together();
}

// query, key, value, order and segments of queries, then of keys [, sinks]. Queries may be spread along their length,
// each device reading all keys; heads as far as the key heads go.
struct AttentionDims {
  std::vector<int> query, key, value, out, q_tokens, k_tokens, sinks;

  AttentionDims(Table& table, std::size_t heads_operand) {
    const Shape& q = table.operand(0);
    const Shape& k = table.operand(1);
    const int b = table.factor(q[0]);
    const int s = table.factor(q[1]);
    const bool one_key_head = k[2] == 1;  // that all heads read, wherever they are
    const int h = table.factor(one_key_head ? q[2] : k[2], true);
    query = {b, s, h, kWhole};
    key = {b, kWhole, one_key_head ? kWhole : h, kWhole};
    value = key;
    out = query;
    q_tokens = {b, s};
    k_tokens = {b, kWhole};
    if (heads_operand > 0) sinks = {h};
  }
};

void attention(const Node& node, Table& table) {
  const bool backward = node.op == Op::attention_grad;
  const std::size_t inputs = node.operands.size() - (backward ? 1 : 0);
  const bool has_sinks = inputs == 8;
  const AttentionDims dims(table, has_sinks ? 7 : 0);
  table.takes(dims.query).takes(dims.key).takes(dims.value);
  table.takes(dims.q_tokens).takes(dims.q_tokens).takes(dims.k_tokens).takes(dims.k_tokens);
  if (has_sinks) table.takes(dims.sinks);
  if (backward) {
    table.takes(dims.out).gives(dims.query).gives(dims.key).gives(dims.value);
    if (has_sinks) table.gives(dims.sinks);
  } else {
    table.gives(dims.out);
  }
  const Shape& q = table.operand(0);
  const double group = static_cast<double>(q[2]) / static_cast<double>(table.operand(1)[2]);
  const auto width = static_cast<double>(q[3] + table.operand(2)[3]);
  table.flops((backward ? 5.0 : 2.0) * group * static_cast<double>(table.operand(1)[1]) * width);
}

// All operands and results have the same dims.
void alike(const Node& node, const std::vector<int>& dims, Table& table) {
  for (std::size_t i = 0; i < node.operands.size(); ++i) table.takes(dims);
  for (std::size_t i = 0; i < node.results.size(); ++i) table.gives(dims);
}

// Each token alone, whatever experts or choices it has in its last dim.
void per_token(const Node& node, Table& table) { alike(node, table.own_but(table.operand(0), {2}), table); }

void random_scores(Table& table) {
  const std::vector<int> tokens = table.own(table.operand(1));
  table.takes({kWhole}).takes(tokens).gives({tokens[0], tokens[1], kWhole});
}

void expert_load(Table& table) {
  const std::vector<int> ids = table.own_but(table.operand(0), {2});
  table.takes(ids).gives({ids[0], kWhole});
}

// Like a product with a mask [B, S, E, C], of which only the choices exist.
void with_slots(const Node& node, Table& table) {
  const Shape& filled = node.op == Op::fill_slots ? table.result(0) : table.operand(0);
  const int e = table.factor(filled[0]);
  const int b = table.factor(filled[1]);
  const int c = table.factor(filled[2]);
  const int m = table.factor(filled[3]);
  const int s = table.factor(table.operand(1)[1]);
  const std::vector<int> slots{b, s, kWhole}, tokens{b, s, m}, all{e, b, c, m};
  table.takes(node.op == Op::fill_slots ? tokens : all).takes(slots).linear_in({0});
  if (node.op == Op::slot_products) {
    table.takes(tokens).gives(slots).linear_in({2});
    return;
  }
  if (node.operands.size() == 3) table.takes(slots).linear_in({2});
  table.gives(node.op == Op::fill_slots ? all : tokens);
}

// A slot depends on all choices of its row before it.
void slots(Table& table) {
  const int b = table.factor(table.operand(0)[0]);
  table.takes({b, kWhole, kWhole}).gives({b, kWhole, kWhole});
}

// A device that knows the logarithms of all pieces of the vocabulary can do with its own piece of the logits.
void cross_entropy(const Node& node, Table& table) {
  const bool in_pieces = node.operands.size() == 5;
  const std::vector<int> logits = in_pieces ? table.own(table.operand(0)) : table.own_but(table.operand(0), {2});
  const std::vector<int> tokens = head(logits, 2);
  table.takes(logits).takes(tokens).takes(tokens);
  if (node.op == Op::cross_entropy) {
    table.gives({}).gives({});
    return;
  }
  table.takes({});
  if (in_pieces) table.takes({tokens[0], tokens[1], kWhole});
  table.gives(logits);
}

void vocab_scores(Table& table) {
  const Shape& shape = table.operand(0);
  const int b = table.factor(shape[0]);
  const int s = table.factor(shape[1]);
  const int v = table.factor(std::gcd(shape[2], table.result(1)[2]), true);
  table.takes({b, s, v}).takes({b, s}).gives({b, s}).gives({b, s, v});
}

void cross_entropy_of_scores(Table& table) {
  const std::vector<int> tokens = table.own(table.operand(0));
  table.takes(tokens).takes({tokens[0], tokens[1], kWhole}).takes(tokens).gives({}).gives({});
}

void rms_norm(Table& table, bool backward) {
  const Shape& x = table.operand(0);
  const std::vector<int> dims = table.own_but(x, {static_cast<int>(x.size()) - 1});
  table.takes(dims).takes({kWhole});
  if (backward) {
    table.takes(dims).gives(dims).gives({kWhole}).linear_in({2});
  } else {
    table.gives(dims);
  }
}

void rope(Table& table) {
  const std::vector<int> x = table.own_but(table.operand(0), {3});
  table.takes(x).takes(head(x, 2)).gives(x).linear_in({0});
}

// Slots and the new tokens are whole; the batch and what a token has may be spread.
void cache_write(Table& table) {
  const std::vector<int> cache = table.own_but(table.operand(0), {1});
  table.takes(cache).takes(cache).takes({cache[0], kWhole}).gives(cache).in_place();
}

void embed(const Node& node, Table& table) {
  const bool backward = node.op == Op::embed_grad;
  const Shape& tokens = table.operand(backward ? 0 : 1);
  const Shape& rows = backward ? table.operand(1) : table.result(0);
  const std::vector<int> x = table.own(rows);
  const std::vector<int> token_dims = head(x, tokens.size());
  if (backward) {
    table.takes(token_dims).takes(x).gives({kWhole, x.back()}).linear_in({1});
  } else {
    // Of a token that another device has the row of there are zeros, which add up with that row.
    table.takes({table.factor(table.operand(0)[0]), x.back()}).takes(token_dims).gives(x);
  }
}

// A parameter, its gradient and its moments are alike; the last operand holds a few numbers.
void update(const Node& node, Table& table) {
  const std::vector<int> dims = table.own(table.result(0));
  for (std::size_t i = 0; i + 1 < node.operands.size(); ++i) table.takes(dims);
  table.takes({kWhole});
  for (std::size_t i = 0; i < node.results.size(); ++i) table.gives(dims);
}

void binary(graph::Binary function, Table& table) {
  table.elementwise();
  switch (function) {
    case graph::Binary::add:
    case graph::Binary::subtract: table.linear_together(); break;
    case graph::Binary::multiply: table.linear_in({0, 1}); break;
    case graph::Binary::divide: table.linear_in({0}); break;
  }
}

void fill_in(const Graph& graph, const Node& node, Table& table) {
  switch (node.op) {
    case Op::einsum: return einsum(std::get<graph::EinsumOf>(node.attributes).equation, table);
    case Op::unary:
      table.elementwise();
      if (std::get<graph::UnaryOf>(node.attributes).function == graph::Unary::scale) table.linear_in({0});
      return;
    case Op::binary: return binary(std::get<graph::BinaryOf>(node.attributes).function, table);
    case Op::cast: {
      // Parts that are rounded to a narrower type each add up to less than their rounded sum.
      const auto bytes = [&](graph::ValueId id) { return size_of(graph.value(id).dtype); };
      table.elementwise();
      if (bytes(node.results[0]) >= bytes(node.operands[0])) table.linear_in({0});
      return;
    }
    case Op::broadcast: return broadcast(std::get<graph::BroadcastOf>(node.attributes), table);
    case Op::reduce: return reduce(std::get<graph::ReduceOf>(node.attributes), table);
    case Op::reshape: return reshape(table);
    case Op::transpose: return transpose(std::get<graph::TransposeOf>(node.attributes), table);
    case Op::slice: return along(std::get<graph::SliceOf>(node.attributes).dim, 1, table);
    case Op::concat: return along(std::get<graph::ConcatOf>(node.attributes).dim, node.operands.size(), table);
    case Op::pad: return along(std::get<graph::PadOf>(node.attributes).dim, 1, table);
    case Op::fill: table.gives(table.own(table.result(0))); return;
    case Op::softmax:
    case Op::softmax_grad:
      alike(node, table.own_but(table.result(0), {static_cast<int>(table.result(0).size()) - 1}), table);
      if (node.op == Op::softmax_grad) table.linear_in({1});
      return;
    case Op::rms_norm: return rms_norm(table, false);
    case Op::rms_norm_grad: return rms_norm(table, true);
    case Op::rope: return rope(table);
    case Op::attention:
    case Op::attention_grad: return attention(node, table);
    case Op::cache_write: return cache_write(table);
    case Op::embed:
    case Op::embed_grad: return embed(node, table);
    case Op::cross_entropy:
    case Op::cross_entropy_grad: return cross_entropy(node, table);
    case Op::vocab_scores: return vocab_scores(table);
    case Op::cross_entropy_of_scores: return cross_entropy_of_scores(table);
    case Op::random_scores: return random_scores(table);
    case Op::top_k:
    case Op::top_k_grad:
    case Op::spread:
    case Op::spread_grad: return per_token(node, table);
    case Op::slots: return slots(table);
    case Op::fill_slots:
    case Op::empty_slots:
    case Op::slot_products: return with_slots(node, table);
    case Op::expert_load: return expert_load(table);
    case Op::unary_grad: table.elementwise().linear_in({1}); return;
    case Op::sum_squares: table.takes(table.own(table.operand(0))).gives({}); return;
    case Op::adam_update:
    case Op::sgd_update: return update(node, table);
    default: fail(fmt::format("{} cannot be spread over devices yet", name_of(node.op)), node.path);
  }
}

}  // namespace

OpFactors factors_of(const Graph& graph, const Node& node) {
  Table table(graph, node);
  fill_in(graph, node, table);
  return table.take();
}

}  // namespace moesh::partition
