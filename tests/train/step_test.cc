// The graph of a model's gradients: the same numbers whatever is saved for the backward pass.
#include <cmath>
#include <cstring>

#include "config/schema.h"
#include "graph/print.h"
#include "tests/train/trainer_support.h"
#include "train/programs.h"

namespace moesh::train {
namespace {

using test::kTinyMixtral;
using test::kTinyModel;
using test::Training;

const std::string kTinyDeepseek =
    kTinyModel +
    "model_name=deepseek3-tiny override_model_config=true base_num_decoder_layers=3 first_num_dense_layers=1 ";
const std::string kTinyGptOss =
    kTinyModel +
    "model_name=gpt-oss-20b override_model_config=true base_num_decoder_layers=4 base_moe_mlp_dim=20 num_experts=4 "
    "num_experts_per_tok=2 ";

std::vector<std::vector<double>> gradients_of(const std::string& request) {
  Training training(request);
  const Trainer::Gradients made = training.trainer.gradients(training.batch());
  std::vector<std::vector<double>> all{{made.metrics.loss}};
  for (const run::Placed& gradient : made.gradients) all.push_back(test::numbers_of(gradient));
  return all;
}

// "" of the schema is "everything".
std::vector<std::string> policies() {
  std::vector<std::string> all;
  for (const config::Choice& choice : config::choices(*config::find_key("remat_policy"))) all.emplace_back(choice.word);
  return all;
}

class RematPolicy : public ::testing::TestWithParam<std::string> {};

TEST_P(RematPolicy, ChangesNoBitOfAModelsGradients) {
  for (const std::string& model : {kTinyModel, kTinyMixtral, kTinyDeepseek, kTinyGptOss}) {
    const auto expected = gradients_of(model + "remat_policy=full");
    EXPECT_EQ(gradients_of(model + "remat_policy=" + GetParam()), expected) << model;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, RematPolicy, ::testing::ValuesIn(policies()),
                         [](const auto& test) { return test.param.empty() ? "everything" : test.param; });

TEST(RematPolicies, MayNameWhatIsSaved) {
  const auto expected = gradients_of(kTinyMixtral + "remat_policy=full");
  for (const char* key :
       {"context", "query_proj", "key_proj", "value_proj", "out_proj", "moe_mlpwi_0", "moe_mlpwi_1", "moe_mlpwo"}) {
    EXPECT_EQ(gradients_of(kTinyMixtral + "remat_policy=custom " + key + "=device"), expected) << key;
  }
}

std::int64_t saved_values(const std::string& request) {
  const session::Session session = test::session(request);
  std::int64_t saved = 0;
  for (const graph::Node& node : gradient_graph(session.graph, session.loaded.settings).nodes) {
    if (const auto* of = std::get_if<graph::RepeatOf>(&node.attributes))
      saved += static_cast<std::int64_t>(of->saved.size());
  }
  return saved;
}

// The layer's input and what each policy names, in a dense model: four projections of attention, three of the MLP.
TEST(RematPolicies, SaveWhatTheySay) {
  const auto saved = [](const std::string& policy) { return saved_values(kTinyModel + "remat_policy=" + policy); };
  EXPECT_EQ(saved("full"), 1);
  EXPECT_EQ(saved("minimal"), 8);
  EXPECT_EQ(saved("minimal_with_context"), 9);
  EXPECT_EQ(saved("save_dot_except_mlpwi"), 6);
  EXPECT_EQ(saved("save_dot_except_mlp"), 5);
  EXPECT_EQ(saved("save_dot_with_context_except_mlp"), 6);
  EXPECT_EQ(saved("save_qkv_proj"), 4);
  EXPECT_EQ(saved("save_out_proj"), 2);
  EXPECT_EQ(saved("custom"), 1);
  EXPECT_EQ(saved("custom context=device mlpwo=offload"), 3);
  EXPECT_EQ(saved("custom attention_out=device"), 2);
  EXPECT_EQ(saved("custom attention_out=device context=device"), 2) << "one value by two names";
  EXPECT_GT(saved(""), 20);
}

TEST(GradientGraph, GivesTheModelsResultsAndAGradientForEachParameter) {
  const session::Session session = test::session(kTinyMixtral + "load_balance_loss_weight=0.1");
  const graph::Graph graph = gradient_graph(session.graph, session.loaded.settings);
  const std::vector<Trained> parameters = trained_parameters(session.graph, session.loaded.settings);
  EXPECT_EQ(graph.result_names, session.graph.result_names);
  ASSERT_EQ(graph.results.size(), session.graph.results.size() + parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const graph::Value& gradient = graph.value(graph.results[session.graph.results.size() + i]);
    EXPECT_EQ(gradient.shape, parameters[i].shape) << parameters[i].path;
    EXPECT_EQ(gradient.dtype, DType::float32) << parameters[i].path;
  }
}

// Bodies included. What a layer makes again for its backward pass is still of the forward pass.
void expect_ticks_in_the_backward_pass(const graph::Graph& graph) {
  for (const graph::Node& node : graph.nodes) {
    const bool has_tick = node.path.find('\'') != std::string::npos;
    const graph::Phase expected = has_tick ? graph::Phase::backward : graph::Phase::forward;
    EXPECT_TRUE(graph::is_root(node) || node.phase == expected) << node.path;
    if (const graph::Graph* body = graph::body_of(node)) expect_ticks_in_the_backward_pass(*body);
  }
}

TEST(GradientGraph, MarksTheNodesOfTheBackwardPassWhosePathsBearATick) {
  for (const std::string& request : {kTinyMixtral, kTinyMixtral + "sparse_matmul=false capacity_factor=1.25", kTinyDeepseek}) {
    const session::Session session = test::session(request);
    const graph::Graph graph = gradient_graph(session.graph, session.loaded.settings);
    expect_ticks_in_the_backward_pass(graph);
    EXPECT_EQ(graph.node(graph.value(graph.results.front()).producer).phase, graph::Phase::forward);
    EXPECT_EQ(graph.node(graph.value(graph.results.back()).producer).phase, graph::Phase::backward);
  }
}

// Whose collectives and copies the partitioner adds are of the same phase.
TEST(StepPrograms, KeepThePhasesOfTheirNodes) {
  const session::Session session = test::session(kTinyMixtral + "num_experts=4 compile_topology=cpu-4 ici_fsdp_parallelism=2 "
                                                 "ici_expert_parallelism=2 per_device_batch_size=1");
  const StepPrograms step = step_programs(session.graph, session.loaded.settings, {session.layout, session.target});
  expect_ticks_in_the_backward_pass(step.gradients);
  for (const graph::Node& node : step.update.nodes) EXPECT_EQ(node.phase, graph::Phase::update) << node.path;
}

TEST(UpdateGraph, SaysWhichInputsAreMomentsAndNumbers) {
  const session::Session session = test::session(kTinyModel + "opt_type=muon");
  const std::vector<Trained> parameters = trained_parameters(session.graph, session.loaded.settings);
  std::int64_t expected = 0;
  for (const Trained& trained : parameters) expected += trained.moments;
  std::int64_t moments = 0, numbers = 0;
  for (const graph::Node& node : update_graph(parameters, session.loaded.settings).nodes) {
    if (graph::is_input(node, graph::InputOf::Kind::number)) ++numbers;
    if (!graph::is_input(node, graph::InputOf::Kind::moment)) continue;
    ++moments;
    EXPECT_TRUE(node.path.starts_with("mu/") || node.path.starts_with("nu/")) << node.path;
  }
  EXPECT_EQ(moments, expected);
  EXPECT_EQ(numbers, 3) << "rate and step, the factor of gradients, Muon's weights";
}

TEST(GradientGraph, RoundsGradientsWhereThatIsAsked) {
  const auto narrow = gradients_of(kTinyModel + "grad_dtype=bfloat16");
  const auto wide = gradients_of(kTinyModel);
  bool any = false;
  for (std::size_t i = 1; i < wide.size(); ++i) {
    for (std::size_t k = 0; k < wide[i].size(); ++k) {
      const auto value = static_cast<float>(narrow[i][k]);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      EXPECT_EQ(bits & 0xFFFF, 0u);
      EXPECT_NEAR(narrow[i][k], wide[i][k], std::abs(wide[i][k]) / 256);
      any = any || narrow[i][k] != wide[i][k];
    }
  }
  EXPECT_TRUE(any);
}

TEST(TrainedParameters, KeepTheMomentsOfTheirOptimizer) {
  const auto moments = [](const std::string& request, const std::string& path) {
    const session::Session session = test::session(kTinyModel + request);
    for (const Trained& trained : trained_parameters(session.graph, session.loaded.settings)) {
      if (trained.path == path) return trained.moments;
    }
    return -1;
  };
  EXPECT_EQ(moments("opt_type=adamw", "decoder/layers/mlp/wo/kernel"), 2);
  EXPECT_EQ(moments("opt_type=sgd", "decoder/layers/mlp/wo/kernel"), 0);
  EXPECT_EQ(moments("opt_type=muon", "decoder/layers/mlp/wo/kernel"), 1);
  EXPECT_EQ(moments("opt_type=muon", "decoder/decoder_norm/scale"), 2);
}

// A stack of layers and the same layers one by one: the same loss, and gradients that are the stacked ones' slices.
TEST(GradientGraph, IsTheSameForLayersWrittenOneByOne) {
  Training scanned(kTinyMixtral + "scan_layers=true");
  Training unscanned(kTinyMixtral + "scan_layers=false");
  const std::string stacked_path = "decoder/layers/self_attention/query/kernel";
  const auto layer_of = [&](const std::string& path, const std::vector<double>& stacked, const Shape& shape,
                            std::int64_t layer) {
    const std::int64_t inner = path.ends_with("/scale") ? 1 : elements(shape) / shape[0] / shape[1];
    std::vector<double> made;
    for (std::int64_t row = 0; row < shape[0]; ++row) {
      for (std::int64_t i = 0; i < inner; ++i) {
        made.push_back(stacked[static_cast<std::size_t>((row * shape[1] + layer) * inner + i)]);
      }
    }
    return made;
  };
  const auto stacked_name = [](std::string path, std::int64_t layer) {
    const std::string own = "/layers_" + std::to_string(layer) + "/";
    return path.replace(path.find(own), own.size(), "/layers/");
  };
  const auto layer_in = [](const std::string& path) {
    return path.find("/layers_0/") != std::string::npos ? 0 : path.find("/layers_1/") != std::string::npos ? 1 : -1;
  };
  for (const std::string& path : unscanned.paths()) {
    const std::int64_t layer = layer_in(path);
    const std::string from = layer < 0 ? path : stacked_name(path, layer);
    const run::Array& array = scanned.trainer.parameter(from);
    const auto values =
        layer < 0 ? test::numbers_of(array) : layer_of(path, test::numbers_of(array), array.view.shape, layer);
    unscanned.trainer.set_parameter(path, unscanned.array(unscanned.trainer.parameter(path).view.shape, values));
  }
  const Trainer::Gradients a = scanned.trainer.gradients(scanned.batch());
  const Trainer::Gradients b = unscanned.trainer.gradients(unscanned.batch());
  EXPECT_EQ(a.metrics.loss, b.metrics.loss);
  const auto index_of = [](const Training& training, const std::string& path) {
    const std::vector<std::string> paths = training.paths();
    return static_cast<std::size_t>(std::find(paths.begin(), paths.end(), path) - paths.begin());
  };
  for (const std::string& path : unscanned.paths()) {
    const std::int64_t layer = layer_in(path);
    const run::Placed& stacked = a.gradients[index_of(scanned, layer < 0 ? path : stacked_name(path, layer))];
    const auto expected =
        layer < 0 ? test::numbers_of(stacked) : layer_of(path, test::numbers_of(stacked), stacked.shape, layer);
    EXPECT_EQ(test::numbers_of(b.gradients[index_of(unscanned, path)]), expected) << path;
  }
}

}  // namespace
}  // namespace moesh::train
