#include "train/passes.h"

#include <algorithm>
#include <map>

#include "graph/autodiff.h"
#include "graph/rewrite.h"
#include "graph/slots.h"
#include "models/model.h"
#include "train/remat.h"

namespace moesh::train {
namespace {

using graph::Builder;
using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Tensor;
using graph::ValueId;
using Kind = graph::InputOf::Kind;
namespace results = models::results;

Tensor result_of(Builder& builder, const char* name) {
  const int at = find_result(builder.graph(), name);
  return at < 0 ? Tensor{} : builder.tensor(builder.graph().results[static_cast<std::size_t>(at)]);
}

// The summed entropy, as far as it is trained on.
Tensor entropy_of(Builder& builder, const config::Settings& settings) {
  return config::leaves_out_entropy(settings) ? graph::fill(builder, 0, {}, DType::float32) : result_of(builder, results::entropy_sum);
}

// What is differentiated: the reported loss of a single microbatch, or what adds up over several: the summed entropy and the losses beside
// it.
Tensor differentiated(Builder& builder, const config::Settings& settings) {
  if (settings.integer("gradient_accumulation_steps") == 1) return result_of(builder, results::loss);
  Tensor sum = entropy_of(builder, settings);
  for (const char* name : results::losses_beside) {
    if (const Tensor beside = result_of(builder, name)) sum = graph::add(sum, beside);
  }
  return sum;
}

// The passes of one microbatch as a graph of their own. Its results, in this order: what is summed over microbatches, a gradient
// for each parameter, what is stacked.
struct Pass {
  Graph graph;
  std::vector<const char*> summed{results::entropy_sum, results::positions, results::z_loss};  // and losses beside the entropy
  std::vector<const char*> stacked{results::expert_load, results::highest_scores, results::logits};
};

// The model as it is differentiated: without slot masks, and with the values that are saved for the backward pass.
Graph prepared(const Graph& model, const config::Settings& settings, const SeeGraph& see) {
  const Graph with_slots = graph::without_slot_masks(model);
  Graph saving = graph::with_saved_values(with_slots, remat_of(settings));
  if (see) {
    see(pass_names::model, model);
    see(pass_names::slots, with_slots);
    see(pass_names::remat, saving);
  }
  return saving;
}

Pass pass_of(const Graph& model, const config::Settings& settings, bool keep_logits, const SeeGraph& see) {
  Pass pass;
  Builder builder(prepared(model, settings, see));
  std::vector<Tensor> trained;
  for (const Node& node : builder.graph().nodes) {
    if (node.op == Op::parameter) trained.push_back(builder.tensor(node.results.front()));
  }
  pass.summed.insert(pass.summed.end(), results::losses_beside.begin(), results::losses_beside.end());
  std::erase_if(pass.summed, [&](const char* name) { return !result_of(builder, name); });
  std::erase_if(pass.stacked, [&](const char* name) { return !result_of(builder, name); });
  if (!keep_logits) std::erase(pass.stacked, results::logits);
  std::vector<ValueId> made;
  for (const char* name : pass.summed) {
    const bool is_entropy = name == std::string_view(results::entropy_sum);
    made.push_back((is_entropy ? entropy_of(builder, settings) : result_of(builder, name)).id);
  }
  // Those of several microbatches are rounded once they are added up.
  const bool is_alone = settings.integer("gradient_accumulation_steps") == 1;
  const DType dtype = is_alone ? gradient_dtype(settings) : DType::float32;
  for (const Tensor& gradient : graph::gradients(differentiated(builder, settings), trained)) {
    made.push_back(graph::cast(graph::cast(gradient, dtype), DType::float32).id);
  }
  for (const char* name : pass.stacked) made.push_back(result_of(builder, name).id);
  pass.graph = builder.take();
  pass.graph.results = std::move(made);
  pass.graph.result_names.clear();
  pass.graph = graph::without_dead_results(std::move(pass.graph));
  if (see) see(pass_names::autodiff, pass.graph);
  return pass;
}

// Adds the model's inputs and parameters to the step's graph, and returns them by the pass's values.
std::map<ValueId, Tensor> add_roots(Builder& builder, const Graph& pass, std::int64_t microbatches) {
  std::map<ValueId, Tensor> roots;
  for (const Node& node : pass.nodes) {
    if (!graph::is_root(node)) continue;
    const graph::Value& value = pass.value(node.results.front());
    Tensor& root = roots[node.results.front()];
    if (node.op == Op::parameter) {
      root = builder.parameter(node.path, value.shape, value.dtype, std::get<graph::ParameterOf>(node.attributes));
      continue;
    }
    graph::InputOf of = std::get<graph::InputOf>(node.attributes);
    Shape shape = value.shape;
    if (of.kind == Kind::batch && microbatches > 1) {
      shape.insert(shape.begin(), microbatches);
      of.labels.insert(of.labels.begin(), "");
    }
    root = builder.input(node.path, std::move(shape), value.dtype, std::move(of.labels), of.kind);
  }
  return roots;
}

// Constrains a parameter's gradient to the layout of the parameter, or of its moments, by which it is applied: a reduce-scatter
// over `data` sends half the bytes of an all-reduce.
Tensor laid_for_update(const Trained& parameter, Tensor gradient, const config::Settings& settings) {
  gradient.builder->set_path(parameter.path);
  gradient.builder->set_phase(graph::Phase::update);
  graph::ConstraintOf of;
  of.labels = parameter.labels;
  of.over_data = settings.boolean("shard_optimizer_over_data") && parameter.moments > 0;
  const Tensor laid = graph::constrain("gradient", gradient, of);
  gradient.builder->set_phase(graph::Phase::backward);
  return laid;
}

std::vector<Tensor> run_once(Builder& builder, const Pass& pass, const std::map<ValueId, Tensor>& roots) {
  const std::vector<Tensor> tensors = graph::inline_graph(builder, pass.graph, roots);
  std::vector<Tensor> made;
  for (const ValueId id : pass.graph.results) made.push_back(tensors[static_cast<std::size_t>(id)]);
  builder.set_phase(graph::Phase::forward);
  for (std::size_t i = 0; i < pass.stacked.size(); ++i) {
    Tensor& alone = made[made.size() - pass.stacked.size() + i];
    Shape stacked = alone.shape();
    stacked.insert(stacked.begin(), 1);
    builder.set_path(pass.stacked[i]);
    alone = graph::reshape(alone, std::move(stacked));
  }
  return made;
}

// Constrains what a device adds up over the microbatches: a parameter's gradient, or its share of it.
Tensor laid_for_sum(const Trained& parameter, Tensor gradient, const config::Settings& settings, Reduction reduction) {
  if (reduction == Reduction::each_pass) return laid_for_update(parameter, gradient, settings);
  gradient.builder->set_path(parameter.path);
  graph::ConstraintOf of;
  of.labels = parameter.labels;
  of.unreduced = true;
  return graph::constrain("gradient", gradient, of);
}

// A loop over the microbatches that carries the sums.
std::vector<Tensor> run_each(Builder& builder, const Pass& pass, const std::vector<Trained>& parameters,
                             const std::map<ValueId, Tensor>& roots, const config::Settings& settings, Reduction reduction) {
  const std::int64_t microbatches = settings.integer("gradient_accumulation_steps");
  builder.set_phase(graph::Phase::backward);
  std::vector<Tensor> sums;
  for (std::size_t i = 0; i < pass.summed.size(); ++i) sums.push_back(graph::fill(builder, 0, {}, DType::float32));
  for (const Trained& parameter : parameters) {
    builder.set_path(parameter.path + "/gradient");
    sums.push_back(graph::fill(builder, 0, parameter.shape, DType::float32));
  }
  builder.set_path("");
  std::vector<std::pair<ValueId, Tensor>> batch, shared;
  for (const auto& [id, root] : roots) {
    (graph::is_input(pass.graph.producer_of(id), Kind::batch) ? batch : shared).emplace_back(id, root);
  }
  const auto build = [&](Builder& inner, const std::vector<Tensor>& carried, const std::vector<Tensor>& whole) {
    std::map<ValueId, Tensor> given;
    for (std::size_t i = 0; i < whole.size(); ++i) given[shared[i].first] = whole[i];
    for (const auto& [id, rows] : batch) given[id] = inner.slice_of(rows, 1);
    const std::vector<Tensor> tensors = graph::inline_graph(inner, pass.graph, given);
    inner.set_path("microbatches");
    inner.set_phase(graph::Phase::backward);
    std::vector<Tensor> made;
    for (const ValueId id : pass.graph.results) {
      const Tensor own = tensors[static_cast<std::size_t>(id)];
      const std::size_t i = made.size(), first = pass.summed.size();
      if (i >= carried.size()) {
        made.push_back(own);
      } else if (i < first) {
        made.push_back(graph::add(carried[i], own));
      } else {
        const auto laid = [&](Tensor gradient) { return laid_for_sum(parameters[i - first], gradient, settings, reduction); };
        made.push_back(laid(graph::add(carried[i], laid(own))));
      }
    }
    return made;
  };
  std::vector<Tensor> read_by_all;
  for (const auto& [id, root] : shared) read_by_all.push_back(root);
  return graph::repeat(builder, {"microbatches", {microbatches}, {""}, 0}, sums, read_by_all, {build});
}

}  // namespace

DType gradient_dtype(const config::Settings& settings) {
  return parse_dtype(settings.text("grad_dtype")).value_or(DType::float32);
}

Passes add_passes(Builder& builder, const Graph& model, const std::vector<Trained>& parameters, const config::Settings& settings,
                  bool keep_logits, Reduction reduction, const SeeGraph& see) {
  const std::int64_t microbatches = settings.integer("gradient_accumulation_steps");
  const Pass pass = pass_of(model, settings, keep_logits, see);
  const std::map<ValueId, Tensor> roots = add_roots(builder, pass.graph, microbatches);
  const std::vector<Tensor> made =
      microbatches == 1 ? run_once(builder, pass, roots) : run_each(builder, pass, parameters, roots, settings, reduction);
  std::map<std::string, Tensor> by_name;
  Passes passes;
  std::size_t next = 0;
  for (const char* name : pass.summed) by_name[name] = made[next++];
  for (const Trained& parameter : parameters) passes.gradients.push_back(laid_for_update(parameter, made[next++], settings));
  for (const char* name : pass.stacked) by_name[name] = made[next++];
  passes.entropy_sum = by_name[results::entropy_sum];
  passes.positions = by_name[results::positions];
  passes.z_loss = by_name[results::z_loss];
  for (std::size_t i = 0; i < passes.losses_beside.size(); ++i) passes.losses_beside[i] = by_name[results::losses_beside[i]];
  passes.expert_load = by_name[results::expert_load];
  passes.highest = by_name[results::highest_scores];
  passes.logits = by_name[results::logits];
  return passes;
}

}  // namespace moesh::train
