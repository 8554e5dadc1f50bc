// Shape suffixes: B rows, S length, M embedding, E experts, K experts a token.
#include "nn/moe/router.h"

#include <algorithm>

#include "sharding/labels.h"

namespace moesh::nn {
namespace {

using config::Block;
using config::ScoreFunction;

Tensor scores_of(ScoreFunction function, Tensor logits) {
  switch (function) {
    case ScoreFunction::none: break;
    case ScoreFunction::softmax: return softmax(logits);
    case ScoreFunction::sigmoid: return unary(graph::Unary::sigmoid, logits);
    case ScoreFunction::sqrtsoftplus: return unary(graph::Unary::sqrt, unary(graph::Unary::softplus, logits));
  }
  return logits;
}

// The scale of each chosen expert, looked up like rows of a table.
Tensor scale_of_chosen(Builder& builder, Tensor scale_E, Tensor ids_BSK) {
  const Tensor table_E1 = reshape(scale_E, {scale_E.size(0), 1});
  Shape rows = ids_BSK.shape();
  rows.push_back(1);
  return reshape(builder.add_one(graph::Op::embed, "expert_scale", {table_E1, ids_BSK}, {}, rows, scale_E.dtype()), ids_BSK.shape());
}

Tensor random_scores(Builder& builder, const Context& context, const Scores& scores) {
  const graph::DrawOf of{context.model.moe.experts, std::max(0.0, context.settings.real("router_skew"))};
  return builder.add_one(graph::Op::random_scores, "draw", {scores.draw_key, scores.numbers}, of,
                         {context.rows, context.length, of.experts}, DType::float32);
}

// The experts of each token. As in MaxText, the table of these whole numbers is float32.
Tensor look_up_experts(Builder& builder, const Context& context, Tensor ids_BS) {
  const config::ModelShape& model = context.model;
  const graph::Initializer in_turns{graph::Initializer::Kind::turns, model.moe.experts};
  const Tensor table_VK = builder.parameter("tid2eid", {model.vocab_size, model.moe.experts_per_token}, DType::float32,
                                            {{labels::none, labels::none}, in_turns, Role::expert_table,
                                             graph::ParameterOf::Labelled::never});
  const Shape shape{ids_BS.size(0), ids_BS.size(1), model.moe.experts_per_token};
  return builder.add_one(graph::Op::give_experts, "given", {table_VK, ids_BS}, {}, shape, DType::int32);
}

}  // namespace

Scores router_scores(Builder& builder, const Context& context, Tensor x_BSM, const char* label, const Tokens& tokens, bool is_given) {
  const Tensor given = is_given ? look_up_experts(builder, context, tokens.ids) : Tensor{};
  const graph::Scope scope(builder, "gate");
  const config::ModelShape& model = context.model;
  const DType dtype = model.float32_gate_logits ? DType::float32 : model.compute_dtype;
  const std::int64_t width = model.moe.input_dim;
  const Tensor weight = parameter(builder, context, "kernel", {width, model.moe.experts},
                                  {{label, labels::none}, moe_fan_in(context, width), Role::router_kernel}, dtype);
  const Tensor logits = einsum("", "bsm,me->bse", cast(x_BSM, dtype), weight);
  const Tensor scored = scores_of(model.moe.routing.score_function, logits);
  const auto weighing = [&](Tensor scores) {
    return model.moe.softmax_over_all ? cast(softmax(cast(scores, DType::float32)), model.compute_dtype) : scores;
  };
  if (is_given || !model.moe.routed_bias) return {scored, weighing(scored), tokens.numbers, tokens.draw_keys, given};
  graph::ParameterOf of_bias{{labels::none}, zeros(), Role::router_bias};
  of_bias.stacks_in_front = model.block == Block::deepseek4;
  const Tensor bias = parameter(builder, context, "bias", {model.moe.experts}, of_bias, dtype);
  const Tensor biased = add_bias(scored, bias);
  return {biased, model.moe.routing.weighs_without_bias ? scored : weighing(biased), tokens.numbers, tokens.draw_keys};
}

Tensor expert_scale(Builder& builder, const Context& context) {
  return parameter(builder, context, "per_expert_scale", {context.model.moe.experts}, {{labels::exp}, ones(), Role::norm_scale});
}

graph::TopKOf routing_of(const Context& context) {
  using Weights = graph::TopKOf::Weights;
  const config::RoutingShape& routing = context.model.moe.routing;
  graph::TopKOf of;
  of.k = context.model.moe.experts_per_token;
  of.weights = routing.softmax_of_chosen ? Weights::softmax_of_chosen : Weights::chosen;
  of.normalize = routing.normalize;
  of.normalize_epsilon = routing.normalize_epsilon;
  of.scale = routing.scale;
  of.groups = routing.groups;
  of.chosen_groups = routing.chosen_groups;
  of.group_score_terms = routing.group_score_terms;
  return of;
}

Routed route(Builder& builder, const Context& context, const Scores& scores) {
  graph::TopKOf of = routing_of(context);
  const Shape shape{context.rows, context.length, of.k};
  if (scores.given && !scores.numbers)
    return {builder.add_one(graph::Op::weigh, "weigh", {scores.weighing, scores.given}, of, shape, scores.weighing.dtype()), scores.given};
  std::vector<Tensor> operands{scores.choosing};
  if (scores.numbers) {
    of.groups = 0;
    operands = {random_scores(builder, context, scores), scores.weighing};
  } else if (scores.weighing.id != scores.choosing.id) {
    operands.push_back(scores.weighing);
  }
  const std::vector<Tensor> routed =
      builder.add(graph::Op::top_k, "route", operands, of, {{shape, scores.weighing.dtype()}, {shape, DType::int32}});
  if (scores.expert_scale) return {multiply(routed[0], scale_of_chosen(builder, scores.expert_scale, routed[1])), routed[1]};
  if (!context.model.moe.weights_inputs) return {routed[0], routed[1]};
  const bool is_narrow = routed[0].dtype() == DType::bfloat16;
  const Tensor wide = unary(graph::Unary::sigmoid, is_narrow ? cast(routed[0], DType::float32) : routed[0]);
  return {cast(wide, context.model.compute_dtype), routed[1]};
}

Tensor spread(Builder& builder, const Context& context, const Routed& routed) {
  return builder.add_one(graph::Op::spread, "weights", {routed.weights, routed.ids},
                         graph::SpreadOf{context.model.moe.experts},
                         {context.rows, context.length, context.model.moe.experts}, routed.weights.dtype());
}

Tensor choices(Builder& builder, const Context& context, const Routed& routed) {
  return builder.add_one(graph::Op::expert_load, "choices", {routed.ids}, {}, {routed.ids.size(0), context.model.moe.experts},
                         DType::float32);
}

Tensor expert_load(Builder& builder, const Context& context, const Routed& routed) {
  const graph::Scope scope(builder, "expert_load");
  return reduce(graph::Reduction::sum, choices(builder, context, routed), {0});
}

// The mean over rows and experts of the share of tokens times the mean probability, times the squared number of experts and the loss'
// weight.
Tensor balance_loss(Builder& builder, const Context& context, const Scores& scores, const Routed& routed) {
  const double weight = context.settings.real("load_balance_loss_weight");
  if (weight <= 0 || scores.given) return {};
  const graph::Scope scope(builder, "balance_loss");
  const Tensor density_BE = choices(builder, context, routed);
  const Tensor probability_BE = reduce(graph::Reduction::sum, softmax(cast(scores.choosing, DType::float32)), {1});
  const Tensor sum = reduce(graph::Reduction::sum, multiply(density_BE, probability_BE), {0, 1});
  const auto length = static_cast<double>(scores.choosing.size(1));
  const auto rows = static_cast<double>(scores.choosing.size(0));
  return graph::scale(sum, weight * static_cast<double>(context.model.moe.experts) / (rows * length * length));
}

}  // namespace moesh::nn
