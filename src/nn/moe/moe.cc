#include "nn/moe/moe.h"

namespace moesh::nn {

MoeResult moe(Builder& builder, const Context& context, const std::string& name, Tensor x, const RouterInput& router,
              const Tokens& tokens) {
  const graph::Scope scope(builder, name);
  Scores scores = router_scores(builder, context, router.x ? router.x : x, router.label, tokens, router.is_given);
  if (context.model.moe.softmax_over_all) scores.expert_scale = expert_scale(builder, context);
  const Experts weights = experts(builder, context);
  switch (context.model.moe.strategy) {
    case config::MoeStrategy::dense: return dense_moe(builder, context, x, scores, weights);
    case config::MoeStrategy::capacity: return capacity_moe(builder, context, x, scores, weights);
    case config::MoeStrategy::sparse: return sparse_moe(builder, context, x, scores, weights);
  }
  return {};
}

MoeResult result_of(Builder& builder, const Context& context, Tensor out, const Scores& scores, const Routed& routed, Tensor dropped) {
  if (!context.trains()) return {out, {}, {}};
  const Tensor none = graph::fill(builder, 0, {1}, DType::float32);
  const Tensor lost = dropped ? reshape(dropped, {1}) : none;
  return {out, balance_loss(builder, context, scores, routed), graph::concat({expert_load(builder, context, routed), lost}, 0)};
}

graph::ConstraintOf of_weight(graph::ConstraintOf of) {
  of.unreduced = true;
  return of;
}

Scores constrain_scores(Scores scores, const Labels& labels) {
  const bool one_value = scores.choosing.id == scores.weighing.id;
  scores.choosing = constrain("gate_logits", scores.choosing, labels);
  scores.weighing = one_value ? scores.choosing : constrain("pre_bias_logits", scores.weighing, labels);
  if (scores.given) scores.given = constrain("given_experts", scores.given, labels);
  if (scores.numbers) scores.numbers = constrain("token_numbers", scores.numbers, {labels[0], labels[1]});
  return scores;
}

}  // namespace moesh::nn
