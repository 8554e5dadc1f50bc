#include "train/step.h"

#include "graph/rewrite.h"
#include "models/model.h"
#include "train/update.h"

namespace moesh::train {
namespace {

using graph::Builder;
using graph::Tensor;

struct Losses {
  Tensor loss, lm_loss;
};

// Not 0, even if nothing is to be predicted.
Tensor counted_positions(const Passes& passes) { return graph::unary(graph::Unary::offset, passes.positions, models::kPositionsOffset); }

// 1, or 0 if nothing is to be predicted. In MaxText such a batch of several microbatches has no loss and no gradients at all.
Tensor whether_any(const Passes& passes) { return graph::unary(graph::Unary::minimum, passes.positions, 1); }

// The metrics are the sums of the microbatches' losses beside the entropy; the reported loss contains their means.
Losses losses_of(const Passes& passes, std::int64_t microbatches) {
  const Tensor lm_loss = graph::binary(graph::Binary::divide, passes.entropy_sum, counted_positions(passes));
  Tensor loss = lm_loss;
  for (const Tensor& beside : passes.losses_beside) {
    if (beside) loss = graph::add(loss, graph::scale(beside, 1 / static_cast<double>(microbatches)));
  }
  if (microbatches > 1 && loss.id != lm_loss.id) loss = graph::multiply(loss, whether_any(passes));
  return {loss, lm_loss};
}

// Several microbatches accumulate the gradients of their summed entropies; a single one differentiates the mean already.
Tensor gradient_factor(Builder& builder, const Passes& passes, std::int64_t microbatches) {
  if (microbatches == 1) return graph::fill(builder, 1, {}, DType::float32);
  return graph::binary(graph::Binary::divide, whether_any(passes), counted_positions(passes));
}

std::vector<Tensor> parameters_of(Builder& builder) {
  std::vector<Tensor> parameters;
  for (const graph::Node& node : builder.graph().nodes) {
    if (node.op == graph::Op::parameter) parameters.push_back(builder.tensor(node.results.front()));
  }
  return parameters;
}

// The gradients of the reported loss, rounded as a single microbatch's are.
void round_gradients(Passes& passes, const std::vector<Trained>& parameters, DType dtype, Tensor factor) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Tensor& gradient = passes.gradients[i];
    gradient.builder->set_path(parameters[i].path + "/gradient");
    const Tensor of_loss = graph::multiply(gradient, graph::broadcast(factor, gradient.shape(), {}));
    gradient = graph::cast(graph::cast(of_loss, dtype), DType::float32);
  }
}

// The highest number of all.
Tensor highest_of(Tensor x) {
  const std::int64_t count = elements(x.shape());
  const Tensor one = x.builder->add_one(graph::Op::highest, "max_logits", {graph::reshape(x, {1, count, 1})}, {}, {1, 1, 1}, x.dtype());
  return graph::reshape(one, {});
}

}  // namespace

graph::Graph step_graph(const graph::Graph& model, const config::Settings& settings, const Keep& keep, std::int64_t devices,
                        Reduction reduction, const SeeGraph& see) {
  const std::int64_t microbatches = settings.integer("gradient_accumulation_steps");
  const std::vector<Trained> parameters = trained_parameters(model, settings);
  Builder builder;
  Passes passes = add_passes(builder, model, parameters, settings, keep.logits, reduction, see);
  builder.set_path("metrics");
  builder.set_phase(graph::Phase::update);
  const Losses losses = losses_of(passes, microbatches);
  Tensor factor = gradient_factor(builder, passes, microbatches);
  const bool rounds = microbatches > 1 && gradient_dtype(settings) != DType::float32;
  if (rounds) {
    round_gradients(passes, parameters, gradient_dtype(settings), factor);
    builder.set_path("metrics");
    factor = graph::fill(builder, 1, {}, DType::float32);
  }
  const auto give = [&](Tensor tensor, const std::string& name) {
    if (tensor) builder.mark_result(tensor, name);
  };
  give(losses.loss, step_results::loss);
  give(losses.lm_loss, step_results::lm_loss);
  for (std::size_t i = 0; i < passes.losses_beside.size(); ++i) give(passes.losses_beside[i], models::results::losses_beside[i]);
  give(passes.positions, step_results::positions);
  give(passes.z_loss, models::results::z_loss);
  give(passes.expert_load, step_results::expert_load);
  if (passes.highest) give(highest_of(passes.highest), step_results::max_logits);
  give(passes.logits, step_results::logits);
  if (keep.gradients) {
    for (std::size_t i = 0; i < parameters.size(); ++i) give(passes.gradients[i], step_results::gradient(parameters[i].path));
    give(factor, step_results::gradient_factor);
  }
  add_update(builder, parameters,
             {parameters_of(builder), passes.gradients, losses.loss, microbatches == 1 || rounds ? Tensor{} : factor, passes.expert_load,
              passes.highest},
             settings, devices);
  graph::Graph made = graph::without_dead_nodes(builder.take());
  if (see) see(pass_names::step, made);
  return made;
}

}  // namespace moesh::train
