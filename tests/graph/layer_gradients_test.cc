// Gradient cases of norms, rotary embedding, attention, and the two ends of a model: the embedding and the loss.
#include "tests/graph/gradient_cases.h"

namespace moesh::graph::test {
namespace {

GradientCase rms_norm_case(const std::string& variant, const Shape& shape, double epsilon) {
  return {Op::rms_norm,
          variant,
          {random_numbers(shape, 1), random_numbers({shape.back()}, 2, 0.5, 1.5)},
          [=](Builder& b, const Tensors& in) {
            return Tensors{b.add_one(Op::rms_norm, "norm", in, RmsNormOf{epsilon}, shape, DType::float64)};
          }};
}

GradientCase rope_case(const std::string& variant, const RopeOf& of, std::int64_t dim = 6) {
  const Shape shape{2, 5, 3, dim};
  return {Op::rope, variant, {random_numbers(shape, 1), draws({2, 5}, 2, 40)}, [=](Builder& b, const Tensors& in) {
            return Tensors{b.add_one(Op::rope, "rope", in, of, shape, DType::float64)};
          }};
}

GradientCases rope_cases() {
  using Kind = RopeOf::Kind;
  return {
      rope_case("halves", {}),
      rope_case("pairs", {.interleave = true}),
      rope_case("one_pair", {}, 2),
      rope_case("back", {.inverse = true}),
      rope_case("pairs_back", {.interleave = true, .inverse = true}),
      rope_case("scaled", {.min_timescale = 2, .max_timescale = 500, .linear_scaling = 4}),
      rope_case("llama3", {.kind = Kind::llama3, .max_timescale = 500000}, 10),
      rope_case("yarn", {.kind = Kind::yarn, .factor = 40}, 10),
      rope_case("yarn_pairs_scaled", {.kind = Kind::yarn, .interleave = true, .factor = 40, .attention_scaling = true},
                10),
      rope_case("yarn_ramp_unrounded",
                {.kind = Kind::yarn, .factor = 32, .original_max_positions = 64, .truncate = false}, 14),
  };
}

struct AttentionSizes {
  std::int64_t rows = 2, length = 5, heads = 3, key_heads = 3, dim = 4, value_dim = 4;
};

Numbers positions(std::int64_t rows, std::int64_t length) {
  Numbers made(DType::int32, {rows, length});
  for (std::int64_t i = 0; i < made.count(); ++i) made.set(i, static_cast<double>(i % length));
  return made;
}

GradientCase attention_case(const std::string& variant, const AttentionOf& of, const AttentionSizes& s,
                            bool sinks = false) {
  GradientCase made{Op::attention, variant, {}, {}};
  made.operands = {random_numbers({s.rows, s.length, s.heads, s.dim}, 1, -2, 2),
                   random_numbers({s.rows, s.length, s.key_heads, s.dim}, 2, -2, 2),
                   random_numbers({s.rows, s.length, s.key_heads, s.value_dim}, 3), positions(s.rows, s.length),
                   filled(DType::int32, {s.rows, s.length}, 1)};
  if (sinks) made.operands.push_back(random_numbers({s.heads}, 4));
  if (s.length == 1 || of.window == 1) made.flat = {0, 1};  // a probability of one, whatever the score
  made.build = [=](Builder& b, const Tensors& in) {
    return Tensors{
        b.add_one(Op::attention, "attention", in, of, {s.rows, s.length, s.heads, s.value_dim}, DType::float64)};
  };
  return made;
}

// Packs two documents into each row, with positions that restart at 0 in the second one, and padding at the end.
GradientCase packed(GradientCase of) {
  const std::int64_t length = of.operands[3].shape[1];
  for (std::int64_t i = 0; i < of.operands[3].count(); ++i) {
    const std::int64_t s = i % length;
    const std::int64_t second = 2 + i / length;
    const bool padding = s >= length - 1;
    of.operands[4].set(i, padding ? 0 : s < second ? 1 : 2);
    of.operands[3].set(i, padding ? 0 : static_cast<double>(s < second ? s : s - second));
  }
  return of;
}

// Keys that are chosen for each query: all up to its own but one.
Numbers chosen_keys(std::int64_t rows, std::int64_t length) {
  Numbers made(DType::int32, {rows, length, 1});
  for (std::int64_t i = 0; i < made.count(); ++i) {
    const std::int64_t s = i % length, all = (std::int64_t{2} << s) - 1;
    made.set(i, static_cast<double>(s == 0 ? all : all & ~(std::int64_t{1} << (i % s))));
  }
  return made;
}

GradientCases indexing_cases() {
  constexpr std::int64_t kRows = 2, kLength = 6, kHeads = 3, kDim = 4;
  const Shape scores{kRows, kLength, kLength};
  return {{Op::index_scores,
           "",
           {random_numbers({kRows, kLength, kHeads, kDim}, 1), random_numbers({kRows, kLength, kDim}, 2), random_numbers({kRows, kLength, kHeads}, 3),
            positions(kRows, kLength)},
           [=](Builder& b, const Tensors& in) {
             return Tensors{b.add_one(Op::index_scores, "scores", in, IndexScoresOf{}, scores, DType::float64)};
           }},
          {Op::index_scores,
           "by_place",
           {random_numbers({kRows, kLength, kHeads, kDim}, 1), random_numbers({kRows, kLength, kDim}, 2), random_numbers({kRows, kLength, kHeads}, 3),
            positions(kRows, kLength)},
           [=](Builder& b, const Tensors& in) {
             return Tensors{b.add_one(Op::index_scores, "scores", in, IndexScoresOf{true}, scores, DType::float64)};
           }},
          {Op::index_loss,
           "",
           {random_numbers(scores, 1, -2, 2), chosen_keys(kRows, kLength)},
           [=](Builder& b, const Tensors& in) {
             const Tensor shares = fill(b, 0.7, scores, DType::float64);
             return Tensors{b.add_one(Op::index_loss, "loss", {in[0], shares, in[1]}, {}, {kRows, kLength}, DType::float64)};
           }}};
}

// The last token is padding.
GradientCases linear_attention_cases() {
  const Shape keys{2, 5, 2, 3}, heads{2, 5, 2, 2}, value{2, 5, 2, 2, 4};
  Numbers segments = filled(DType::int32, {2, 5}, 1);
  segments.set(9, 0);
  return {{Op::causal_conv,
           "",
           {random_numbers({2, 5, 2, 3}, 1), random_numbers({4, 2, 3}, 2)},
           [=](Builder& b, const Tensors& in) { return Tensors{b.add_one(Op::causal_conv, "conv", in, {}, keys, DType::float64)}; }},
          {Op::delta_rule,
           "",
           {random_numbers(keys, 1), random_numbers(keys, 2), random_numbers(value, 3), random_numbers(heads, 4, -1, 0),
            random_numbers(heads, 5, 0, 1), segments},
           [=](Builder& b, const Tensors& in) { return Tensors{b.add_one(Op::delta_rule, "rule", in, {}, value, DType::float64)}; }}};
}

GradientCases stream_cases() {
  const auto mixing = [](std::string name, Shape logits, Shape matrices, std::int64_t iterations) {
    return GradientCase{Op::doubly_stochastic, std::move(name), {random_numbers(std::move(logits), 1, -2, 2)},
                        [=](Builder& b, const Tensors& in) {
                          return Tensors{b.add_one(Op::doubly_stochastic, "mixing", in, DoublyStochasticOf{iterations}, matrices, DType::float64)};
                        }};
  };
  return {mixing("by_sinkhorn", {2, 3, 4, 4}, {2, 3, 4, 4}, 5), mixing("once", {2, 1, 3, 3}, {2, 1, 3, 3}, 1),
          mixing("of_permutations", {2, 3, 6}, {2, 3, 3, 3}, 0)};
}

GradientCases pool_cases() {
  const Shape values{2, 3, 4, 5};
  return {{Op::pool,
           "",
           {random_numbers(values, 1), random_numbers(values, 2, -2, 2)},
           [=](Builder& b, const Tensors& in) { return Tensors{b.add_one(Op::pool, "pool", in, {}, {2, 3, 5}, DType::float64)}; }}};
}

// The keys of six tokens, and behind them those of three pools of two, of which a window of two hides none.
GradientCase pooled_attention_case() {
  const AttentionSizes s{.length = 6};
  const std::int64_t pools = 3, all = s.length + pools;
  GradientCase made = attention_case("of_pools", {.window = 2, .pools = pools}, s);
  made.operands[1] = random_numbers({s.rows, all, s.key_heads, s.dim}, 2, -2, 2);
  made.operands[2] = random_numbers({s.rows, all, s.key_heads, s.value_dim}, 3);
  Numbers order(DType::int32, {s.rows, all});
  for (std::int64_t i = 0; i < order.count(); ++i) {
    const std::int64_t t = i % all;
    order.set(i, static_cast<double>(t < s.length ? t : 2 * (t - s.length) + 1));
  }
  made.operands.push_back(order);
  made.operands.push_back(filled(DType::int32, {s.rows, all}, 1));
  return made;
}

// The last operand says which keys a query sees.
GradientCase sparse_attention_case() {
  const AttentionSizes s{.length = 6};
  GradientCase made = attention_case("of_chosen_keys", {.is_sparse = true}, s);
  made.operands.push_back(chosen_keys(s.rows, s.length));
  return made;
}

GradientCases attention_cases() {
  const AttentionSizes grouped{2, 7, 6, 2, 3, 3};
  return {
      attention_case("plain", {}, {}),
      attention_case("scaled", {.score_scale = 0.5}, {}),
      attention_case("one_position", {}, {2, 1, 3, 3, 4, 4}),
      attention_case("grouped_heads", {}, grouped),
      attention_case("one_key_head", {}, {1, 5, 5, 1, 3, 3}),
      attention_case("narrow_values", {.score_scale = 0.3}, {1, 5, 3, 3, 5, 3}),
      attention_case("window", {.window = 3}, {1, 7, 1, 1, 3, 3}),
      attention_case("chunks", {.chunk = 3}, {1, 7, 1, 1, 3, 3}),
      attention_case("window_in_chunks", {.window = 2, .chunk = 4}, {1, 9, 2, 1, 3, 3}),
      attention_case("window_of_one", {.window = 1}, {1, 3, 1, 1, 3, 3}),
      attention_case("soft_cap", {.soft_cap = 2}, {}),
      attention_case("sinks", {}, {}, true),
      sparse_attention_case(),
      pooled_attention_case(),
      packed(attention_case("packed", {}, {2, 7, 1, 1, 3, 3})),
      packed(attention_case("everything", {.window = 2, .score_scale = 0.7, .soft_cap = 3}, grouped, true)),
      // Longer than a panel of queries in the kernels.
      attention_case("long", {.window = 50, .soft_cap = 5}, {1, 131, 2, 1, 3, 3}, true),
  };
}

GradientCase embed_case(const std::string& variant, const Shape& tokens) {
  return {Op::embed, variant, {random_numbers({7, 3}, 1), draws(tokens, 2, 6)}, [=](Builder& b, const Tensors& in) {
            return Tensors{b.add_one(Op::embed, "embed", in, {}, {tokens[0], tokens[1], 3}, DType::float64)};
          }};
}

// Every third position is padding and does not count.
Numbers segments(const Shape& shape) {
  Numbers made(DType::int32, shape);
  for (std::int64_t i = 0; i < made.count(); ++i) made.set(i, static_cast<double>(i % 3));
  return made;
}

// `in_parts`: also gives the part that the z-loss makes, which nothing depends on.
GradientCase cross_entropy_case(const std::string& variant, double z_loss, bool mean, bool in_parts = false) {
  return {
      Op::cross_entropy,
      variant,
      {random_numbers({2, 5, 7}, 1, -3, 3), draws({2, 5}, 2, 7), segments({2, 5})},
      [=](Builder& b, const Tensors& in) {
        const std::vector<std::pair<Shape, DType>> sums(in_parts ? 2 : 1, {{}, DType::float64});
        const Tensor sum = b.add(Op::cross_entropy, "loss", in, CrossEntropyOf{z_loss}, sums)[0];
        const Tensor count = b.add_one(Op::positions, "positions", {in[2]}, {}, {}, DType::float64);
        return Tensors{mean ? binary(Binary::divide, sum, unary(Unary::offset, count, 1e-8)) : sum};
      }};
}

}  // namespace

GradientCases layer_cases() {
  GradientCases all{
      {Op::softmax,
       "",
       {random_numbers({3, 7}, 1, -3, 3)},
       [](Builder&, const Tensors& in) { return Tensors{softmax(in[0])}; }},
      {Op::softmax,
       "of_one",
       {random_numbers({3, 1}, 1)},
       [](Builder&, const Tensors& in) { return Tensors{softmax(in[0])}; },
       1e-5,
       {0}},
      rms_norm_case("rows", {3, 5, 7}, 1e-5),
      rms_norm_case("one_row", {1, 33}, 1e-5),
      rms_norm_case("width_one", {5, 1}, 0.3),
      rms_norm_case("large_epsilon", {3, 5}, 0.5),
      embed_case("row", {1, 9}),
      embed_case("rows", {3, 5}),
      cross_entropy_case("sum", 0, false),
      cross_entropy_case("mean", 0, true),
      cross_entropy_case("z_loss", 0.1, true),
      cross_entropy_case("z_loss_in_parts", 0.1, true, true),
  };
  for (const GradientCases& more : {rope_cases(), attention_cases(), indexing_cases(), linear_attention_cases(), stream_cases(), pool_cases()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace moesh::graph::test
