// Support for tests of sparse experts: a layer with all its gradients, which runs on any mesh and in any floating type.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nn/moe/moe.h"
#include "partition/partition.h"
#include "run/program.h"
#include "sharding/labels.h"
#include "tests/graph/graph_support.h"
#include "tests/support.h"

namespace moesh::nn::test {

using graph::test::Numbers;

struct LayerCase {
  std::string rules{};                        // a custom_mesh_and_rule or key=value; empty for the default rules
  std::map<std::string, std::int64_t> axes{};  // sizes of mesh axes; axes that are not listed have size 1
  std::int64_t rows = 2;
  std::int64_t length = 6;
  std::int64_t emb = 4;
  config::MoeShape moe{.experts = 4, .experts_per_token = 2, .mlp_dim = 4};
  bool plain_weights = false;  // whether weights are the scores themselves rather than their softmax
  double skew = 0;             // the scores of expert e are lower by skew * log(e + 1)
  int favourite = -1;          // an expert that all tokens choose
  unsigned seed = 1;
  DType dtype = DType::float64;

  // The same layer on one device, where no rows are exchanged and none are dropped.
  LayerCase on_one_device() const {
    LayerCase one = *this;
    one.axes.clear();
    one.moe.buffer_factor = -1;
    one.moe.token_chunks = one.moe.width_chunks = 1;
    return one;
  }

  std::string text() const {
    std::string mesh;
    for (const auto& [axis, size] : axes) mesh += fmt::format("{}={} ", axis, size);
    return fmt::format("seed {} {}rules '{}' {} rows {} length {} emb {} experts {} top-{} width {} {} chunks {} and {} room {} skew {} {}{}",
                       seed, mesh, rules, name_of(dtype), rows, length, emb, moe.experts, moe.experts_per_token, moe.mlp_dim,
                       moe.ring ? "ring" : "all-to-all", moe.token_chunks, moe.width_chunks, moe.buffer_factor, skew,
                       favourite < 0 ? "" : "favourite ", moe.bias ? "bias" : "");
  }
};

inline const session::Session& session_with(const std::string& rules) {
  static std::map<std::string, session::Session> known;
  const auto found = known.find(rules);
  if (found != known.end()) return found->second;
  const std::string request = "model_name=mixtral-8x7b compile_topology=cpu-1 per_device_batch_size=1 ici_fsdp_parallelism=1 ";
  const bool is_name = !rules.empty() && rules.find('=') == std::string::npos;
  return known.emplace(rules, moesh::test::session(request + (is_name ? "custom_mesh_and_rule=" : "") + rules)).first->second;
}

inline mesh::Mesh mesh_of(const LayerCase& of) {
  std::vector<mesh::Axis> axes = session_with(of.rules).mesh.axes();
  for (mesh::Axis& axis : axes) axis = {axis.name, of.axes.contains(axis.name) ? of.axes.at(axis.name) : 1, 1};
  return mesh::Mesh(std::move(axes));
}

inline config::ModelShape model_of(const LayerCase& of) {
  config::ModelShape model = session_with(of.rules).shape;
  model.block = config::Block::mixtral;
  model.emb_dim = of.emb;
  model.moe = of.moe;
  model.moe.routing.softmax_of_chosen = !of.plain_weights;
  model.moe.input_dim = of.emb;
  model.weight_dtype = model.compute_dtype = of.dtype;
  return model;
}

// A layer as a graph. Its results are the output, how often each expert was chosen and how many choices were dropped, the gradients of the
// output's sum weighted by dout, and the sums of squares of the gradients.
class Layer {
 public:
  explicit Layer(const LayerCase& of) : of_(of), mesh_(mesh_of(of)), model_(model_of(of)) {
    const Labels tokens = of.rows > 1 ? Labels{labels::activation_batch, labels::activation_norm_length, labels::none} : Labels(3);
    const Shape scores{of.rows, of.length, of.moe.experts};
    const Tensor x = input("x", {of.rows, of.length, of.emb}, tokens);
    const Tensor choosing = input("choosing", scores, tokens);
    const Tensor weighing = input("weighing", scores, tokens);
    const Tensor dout = input("dout", {of.rows, of.length, of.emb}, tokens);
    const Experts weights = experts(builder_, context());
    const MoeResult made = sparse_moe(builder_, context(), x, {choosing, weighing}, weights);
    find_region();
    std::vector<Tensor> of_roots{x, weighing};
    add_parameters(of_roots);
    builder_.mark_result(made.out);
    builder_.mark_result(made.load);
    const Tensor loss = reduce(graph::Reduction::sum, multiply(made.out, dout), {0, 1, 2});
    std::vector<Tensor> squares;
    for (const Tensor& gradient : graph::gradients(loss, of_roots)) {
      builder_.mark_result(gradient);
      squares.push_back(builder_.add_one(graph::Op::sum_squares, "squares", {gradient}, {}, {}, DType::float32));
    }
    for (const Tensor& square : squares) builder_.mark_result(square);
    gradients_ = of_roots.size();
    program_ = graph::without_dead_nodes(builder_.take());
    if (mesh_.devices() == 1) return;
    const mesh::Topology target = mesh::find_topology(fmt::format("cpu-{}", mesh_.devices()), 1);
    const auto& rules = context().settings.rules("logical_axis_rules");
    program_ = partition::partition(program_, specs_, result_specs(), {mesh_, target, rules}).graph;
  }

  const mesh::Mesh& mesh() const { return mesh_; }
  Context context() const { return {session_with(of_.rules).loaded.settings, model_, of_.rows, of_.length, 1, &mesh_}; }
  std::size_t gradients() const { return gradients_; }
  const std::vector<Shape>& shapes() const { return shapes_; }
  const std::vector<sharding::Spec>& specs() const { return specs_; }
  const sharding::Spec& tokens() const { return tokens_; }    // layout of the tokens as they enter the region
  const sharding::Spec& kernels() const { return kernels_; }  // layout of the experts' input kernels

  std::vector<Numbers> run(const std::vector<Numbers>& feeds, int threads = 2) const {
    backend::Workers workers(threads);
    const auto pool = run::Pool::create();
    std::vector<run::Placed> placed;
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      run::Array whole = pool->allocate(feeds[i].shape, feeds[i].dtype);
      std::memcpy(whole.view.data, feeds[i].bytes.data(), feeds[i].bytes.size());
      placed.push_back(run::place(whole, specs_[i], mesh_, *pool));
    }
    std::vector<Numbers> results;
    for (const run::Placed& made : run::evaluate(program_, placed, mesh_, workers)) {
      const run::Array whole = run::gathered(made, mesh_, *pool, workers);
      results.emplace_back(whole.view.dtype, whole.view.shape);
      std::memcpy(results.back().bytes.data(), whole.view.data, results.back().bytes.size());
    }
    return results;
  }

 private:
  Tensor input(const std::string& name, Shape shape, const Labels& labels) {
    specs_.push_back(context().spec_of({labels, false, {}, {}, false}));
    shapes_.push_back(shape);
    return builder_.input(name, std::move(shape), of_.dtype, labels);
  }

  void find_region() {
    for (const graph::Node& node : builder_.graph().nodes) {
      const auto* of = std::get_if<graph::RegionOf>(&node.attributes);
      if (of == nullptr) continue;
      tokens_ = of->operands[0];
      kernels_ = of->operands[3];
    }
  }

  void add_parameters(std::vector<Tensor>& roots) {
    const graph::Graph& graph = builder_.graph();
    for (const graph::Node& node : graph.nodes) {
      if (node.op != graph::Op::parameter) continue;
      roots.push_back(builder_.tensor(node.results[0]));
      shapes_.push_back(roots.back().shape());
      specs_.push_back(context().spec_of({std::get<graph::ParameterOf>(node.attributes).labels, false, {}, {}, false}));
    }
  }

  // The gradients of inputs and parameters get the layouts of these parameters.
  std::vector<std::optional<sharding::Spec>> result_specs() const {
    std::vector<std::optional<sharding::Spec>> specs(4);
    specs.insert(specs.end(), specs_.begin() + 4, specs_.end());
    specs.resize(2 + 2 * gradients_);
    return specs;
  }

  LayerCase of_;
  mesh::Mesh mesh_;
  config::ModelShape model_;
  Builder builder_;
  graph::Graph program_;
  std::vector<Shape> shapes_;          // shapes of the inputs and parameters
  std::vector<sharding::Spec> specs_;  // layouts of the inputs and parameters
  sharding::Spec tokens_, kernels_;
  std::size_t gradients_ = 0;
};

// Values for the inputs and parameters. Scores differ by more than the step of any finite difference.
inline std::vector<Numbers> feeds_of(const LayerCase& of, const Layer& layer) {
  std::vector<Numbers> feeds;
  for (const Shape& shape : layer.shapes()) {
    feeds.push_back(graph::test::noise(of.dtype, shape, of.seed * 100 + static_cast<unsigned>(feeds.size())));
  }
  Numbers& choosing = feeds[1];
  for (std::int64_t i = 0; i < choosing.count(); ++i) {
    const std::int64_t expert = i % of.moe.experts;
    choosing.set(i, choosing.at(i) - of.skew * std::log(static_cast<double>(expert + 1)) + (expert == of.favourite ? 10 : 0));
  }
  return feeds;
}

}  // namespace moesh::nn::test
