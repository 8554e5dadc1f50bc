// Gradient cases of routing and of the grouped GEMMs of experts.
#include "graph/region.h"
#include "tests/graph/gradient_cases.h"

namespace moesh::graph::test {
namespace {

using Weights = TopKOf::Weights;

constexpr std::int64_t kExperts = 7;

// With `apart`, there are two tensors of scores: the first chooses the experts, the second gives the weights.
GradientCase top_k_case(const std::string& variant, const TopKOf& of, bool apart = false,
                        std::int64_t experts = kExperts) {
  GradientCase made{Op::top_k, variant, {random_numbers({2, 5, experts}, 1, 0.05, 1)}, {}};
  if (apart) {
    made.operands.push_back(random_numbers({2, 5, experts}, 2, 0.05, 1));
    made.flat = {0};
  }
  made.build = [=](Builder& b, const Tensors& in) {
    const Shape shape{2, 5, of.k};
    return Tensors{b.add(Op::top_k, "route", in, of, {{shape, DType::float64}, {shape, DType::int32}})[0]};
  };
  if (of.k == 1 && (of.normalize || of.weights == Weights::softmax_of_chosen))
    made.flat.insert(made.operands.size() - 1);
  return made;
}

GradientCases top_k_cases() {
  const TopKOf grouped{.k = 3, .weights = Weights::chosen, .groups = 4, .chosen_groups = 2};
  TopKOf deepseek3 = grouped;
  deepseek3.normalize = true;
  deepseek3.normalize_epsilon = 1e-20;
  deepseek3.scale = 2.5;
  return {
      top_k_case("softmax", {.k = 3}),
      top_k_case("softmax_of_one", {.k = 1}),
      top_k_case("softmax_of_all", {.k = kExperts}),
      top_k_case("softmax_normalised", {.k = 3, .normalize = true}),
      top_k_case("softmax_normalised_scaled", {.k = 3, .normalize = true, .normalize_epsilon = 0.2, .scale = 3}),
      top_k_case("chosen", {.k = 2, .weights = Weights::chosen}),
      top_k_case("chosen_scaled", {.k = 3, .weights = Weights::chosen, .scale = 16}),
      top_k_case("chosen_normalised",
                 {.k = 3, .weights = Weights::chosen, .normalize = true, .normalize_epsilon = 0.5}),
      top_k_case("chosen_by_others", {.k = 3, .weights = Weights::chosen}, true),
      top_k_case("softmax_chosen_by_others", {.k = 2}, true),
      top_k_case("groups", grouped, false, 12),
      top_k_case("groups_of_one_term",
                 {.k = 2, .weights = Weights::chosen, .groups = 3, .chosen_groups = 2, .group_score_terms = 1}, false,
                 9),
      top_k_case("groups_normalised_chosen_by_others", deepseek3, true, 12),
  };
}

// Ids of `k` different experts per token, all of them among the `experts` experts from `first` on.
Numbers chosen(const Shape& tokens, std::int64_t k, std::int64_t first, std::int64_t experts) {
  Shape shape = tokens;
  shape.push_back(k);
  Numbers ids(DType::int32, shape);
  const Numbers random = draws({ids.count() / k}, 5, 1000);
  for (std::int64_t i = 0; i < ids.count(); ++i) {
    ids.set(i, static_cast<double>(first + (static_cast<std::int64_t>(random.at(i / k)) + i % k * 2) % experts));
  }
  return ids;
}

GradientCase weigh_case(const std::string& variant, const TopKOf& of) {
  return {Op::weigh, variant, {random_numbers({2, 5, kExperts}, 1, 0.05, 1), chosen({2, 5}, of.k, 0, kExperts)},
          [=](Builder& b, const Tensors& in) {
            return Tensors{b.add_one(Op::weigh, "weigh", in, of, {2, 5, of.k}, DType::float64)};
          }};
}

// Copies tokens into capacity slots, applies silu, and copies them back, with weights on one of the two ways or on both.
GradientCase slots_case(const std::string& variant, std::int64_t capacity, bool fills_weighted, bool empties_weighted) {
  return {fills_weighted ? Op::fill_slots : Op::empty_slots,
          variant,
          {chosen({2, 5}, 2, 0, 5), random_numbers({2, 5, 2}, 1), random_numbers({2, 5, 3}, 2)},
          [=](Builder& b, const Tensors& in) {
            const SlotMaskOf of{kExperts, capacity};
            const Tensor slots = b.add_one(Op::slots, "slots", {in[0]}, of, {2, 5, 2}, DType::int32);
            std::vector<Tensor> fills{in[2], slots}, empties{{}, slots};
            if (fills_weighted) fills.push_back(in[1]);
            if (empties_weighted) empties.push_back(in[1]);
            empties[0] = unary(Unary::silu, b.add_one(Op::fill_slots, "fill", fills, of, {kExperts, 2, capacity, 3}, DType::float64));
            return Tensors{b.add_one(Op::empty_slots, "empty", empties, of, {2, 5, 3}, DType::float64)};
          }};
}

// Experts 0, 3 and 6 have no rows.
Numbers sizes() { return values(DType::int32, {kExperts}, {0, 3, 1, 0, 5, 2, 0}); }
constexpr std::int64_t kRoutedRows = 11;

GradientCase grouped_matmul_case(const std::string& variant, bool transpose, std::int64_t in_size,
                                 std::int64_t out_size, const Numbers& rows_per_expert) {
  const Shape weights = transpose ? Shape{kExperts, out_size, in_size} : Shape{kExperts, in_size, out_size};
  return {Op::grouped_matmul,
          variant,
          {random_numbers({kRoutedRows, in_size}, 1), random_numbers(weights, 2), rows_per_expert},
          [=](Builder& b, const Tensors& in) {
            return Tensors{
                b.add_one(Op::grouped_matmul, "wi", in, GroupedMatmulOf{transpose}, {kRoutedRows, out_size}, DType::float64)};
          }};
}

// A group of one device that has all experts.
GroupOf alone(std::int64_t choices) { return {{}, 1, choices}; }

GradientCase fetch_rows_case(const std::string& variant, std::int64_t tokens, std::int64_t k, std::int64_t limit) {
  return {Op::fetch_rows,
          variant,
          {random_numbers({tokens, 3}, 1), chosen({tokens}, k, 1, 5)},
          [=](Builder&, const Tensors& in) {
            return Tensors{fetch_rows(in[0], sort_slots(in[1], {}, kExperts, limit), alone(k))};
          }};
}

// return_rows for five tokens with two choices each, with room for `rows` of these choices.
GradientCase return_rows_case(const std::string& variant, std::int64_t rows, bool weighted) {
  GradientCase made{Op::return_rows, variant, {random_numbers({rows, 3}, 1), chosen({5}, 2, 0, 7)}, {}};
  if (weighted) made.operands.push_back(random_numbers({rows}, 2));
  made.build = [=](Builder&, const Tensors& in) {
    return Tensors{return_rows(in[0], sort_slots(in[1], {}, kExperts, rows), weighted ? in[2] : Tensor{}, 5, alone(2))};
  };
  return made;
}

// An exchange of eleven rows, of which `received` fit.
GradientCase exchange_rows_case(const std::string& variant, bool back, std::int64_t received) {
  const Numbers counts = values(DType::int32, {1, kExperts}, {0, 3, 1, 0, 5, 2, 0});
  return {Op::exchange_rows,
          variant,
          {random_numbers({back ? received : 11, 3}, 1), counts, values(DType::int32, {}, {0})},
          [=](Builder&, const Tensors& in) {
            const Exchange plan = plan_exchange(in[1], in[2], kExperts, alone(1), 11, 11, received);
            return Tensors{back ? exchange_back(in[0], plan) : exchange_rows(in[0], plan)};
          }};
}

// Rows of tokens go to the experts, through their products, and back.
GradientCase experts_case() {
  return {Op::return_rows,
          "in_a_layer",
          {random_numbers({5, 3}, 1), chosen({5}, 2, 1, 5), random_numbers({10}, 2), random_numbers({kExperts, 3, 2}, 3),
           random_numbers({kExperts, 2}, 4)},
          [](Builder& b, const Tensors& in) {
            const SortedSlots slots = sort_slots(in[1], {}, kExperts, 0);
            Tensor rows = fetch_rows(in[0], slots, alone(2));
            rows = b.add_one(Op::grouped_matmul, "wi", {rows, in[3], slots.sizes_E}, GroupedMatmulOf{}, {10, 2}, DType::float64);
            rows = unary(Unary::silu,
                         b.add_one(Op::grouped_bias, "wi", {rows, in[4], slots.sizes_E}, {}, {10, 2}, DType::float64));
            return Tensors{return_rows(rows, slots, fetch_rows(in[2], slots, alone(1)), 5, alone(2))};
          }};
}

}  // namespace

GradientCases expert_cases() {
  GradientCases all = top_k_cases();
  const GradientCases more{
      {Op::spread,
       "",
       {random_numbers({2, 5, 3}, 1), chosen({2, 5}, 3, 0, 7)},
       [](Builder& b, const Tensors& in) {
         return Tensors{b.add_one(Op::spread, "weights", in, SpreadOf{kExperts}, {2, 5, kExperts}, DType::float64)};
       }},
      weigh_case("chosen_normalised", {.k = 3, .weights = Weights::chosen, .normalize = true, .normalize_epsilon = 0.5, .scale = 1.5}),
      weigh_case("softmax", {.k = 2}),
      slots_case("one_slot", 1, false, true),
      slots_case("some_dropped", 2, false, true),
      slots_case("slots_for_all", 10, false, true),
      slots_case("some_dropped", 2, true, false),
      slots_case("weights_both_ways", 2, true, true),
      fetch_rows_case("one_choice", 5, 1, 0),
      fetch_rows_case("three_choices", 7, 3, 0),
      fetch_rows_case("some_dropped", 7, 3, 10),
      return_rows_case("", 10, false),
      return_rows_case("weighted", 10, true),
      return_rows_case("some_dropped", 7, true),
      exchange_rows_case("", false, 11),
      exchange_rows_case("some_dropped", false, 6),
      exchange_rows_case("back", true, 11),
      exchange_rows_case("back_some_dropped", true, 6),
      {Op::own_once,
       "",
       {random_numbers({2, 3}, 1)},
       [](Builder& b, const Tensors& in) {
         return Tensors{b.add_one(Op::own_once, "once", in, alone(1), {2, 3}, DType::float64)};
       }},
      grouped_matmul_case("", false, 3, 5, sizes()),
      grouped_matmul_case("transposed", true, 5, 1, sizes()),
      grouped_matmul_case("one_expert_has_all", false, 3, 2,
                          values(DType::int32, {kExperts}, {0, 0, kRoutedRows, 0, 0, 0, 0})),
      {Op::grouped_bias,
       "",
       {random_numbers({kRoutedRows, 5}, 1), random_numbers({kExperts, 5}, 2), sizes()},
       [](Builder& b, const Tensors& in) {
         return Tensors{b.add_one(Op::grouped_bias, "bias", in, {}, {kRoutedRows, 5}, DType::float64)};
       }},
      experts_case(),
  };
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace moesh::graph::test
