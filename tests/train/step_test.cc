// The graph of a step: its inputs and results, and that what is saved for the backward pass changes no number.
#include <cmath>
#include <cstring>
#include <set>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include "config/schema.h"
#include "graph/print.h"
#include "graph/rewrite.h"
#include "tests/train/trainer_support.h"
#include "train/program.h"
#include "train/remat.h"

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

std::vector<std::vector<double>> gradients_by_parameter(const std::string& request) {
  Training training(request, 2, test::kKeepAll);
  const StepResults made = training.trainer.run_step(training.batch());
  std::vector<std::vector<double>> all{{made.metrics.loss}};
  for (const run::Placed& gradient : made.gradients) all.push_back(test::numbers_of(gradient));
  return all;
}

std::vector<std::string> policies() {
  std::vector<std::string> all;
  for (const config::Choice& choice : config::choices(*config::find_key("remat_policy"))) all.emplace_back(choice.word);
  return all;
}

class RematPolicy : public ::testing::TestWithParam<std::string> {};

TEST_P(RematPolicy, ChangesNoBitOfAModelsGradients) {
  for (const std::string& model : {kTinyModel, kTinyMixtral, kTinyDeepseek, kTinyGptOss}) {
    const auto expected = gradients_by_parameter(model + "remat_policy=full");
    EXPECT_EQ(gradients_by_parameter(model + "remat_policy=" + GetParam()), expected) << model;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, RematPolicy, ::testing::ValuesIn(policies()),
                         [](const auto& test) { return test.param.empty() ? "empty" : test.param; });

TEST(RematPolicies, MayNameWhatIsSaved) {
  const auto expected = gradients_by_parameter(kTinyMixtral + "remat_policy=full");
  for (const char* key :
       {"context", "query_proj", "key_proj", "value_proj", "out_proj", "moe_mlpwi_0", "moe_mlpwi_1", "moe_mlpwo"}) {
    EXPECT_EQ(gradients_by_parameter(kTinyMixtral + "remat_policy=custom " + key + "=device"), expected) << key;
  }
}

std::int64_t saved_values(const std::string& request) {
  const session::Session session = test::session(request);
  std::int64_t saved = 0;
  for (const graph::Node& node : graph::with_saved_values(session.graph, remat_of(session.loaded.settings)).nodes) {
    if (const auto* of = std::get_if<graph::RepeatOf>(&node.attributes))
      saved += static_cast<std::int64_t>(of->saved.size());
  }
  return saved;
}

// In a dense model: the layer's input, and what each policy names of four projections of attention and three of the MLP.
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
  EXPECT_EQ(saved("minimal_with_quantization"), 8) << "nothing of that name is computed";
  EXPECT_EQ(saved("minimal_with_context_and_quantization"), 9);
  EXPECT_GT(saved("everything"), 12);
  EXPECT_EQ(saved(""), saved("everything"));
  for (const char* none : {"none", "None", "null", "\"none\""}) EXPECT_EQ(saved(none), 1) << none << ": no policy, as in MaxText";
}

// Finds, in a graph and all bodies within it, results of loops and regions and inputs of their bodies that nothing reads.
std::vector<std::string> unread(const graph::Graph& graph) {
  std::vector<std::string> found;
  std::set<graph::ValueId> read(graph.results.begin(), graph.results.end());
  for (const graph::Node& node : graph.nodes) read.insert(node.operands.begin(), node.operands.end());
  for (const graph::Node& node : graph.nodes) {
    const auto* repeat = std::get_if<graph::RepeatOf>(&node.attributes);
    const graph::Graph* body = graph::body_of(node);
    if (body == nullptr) continue;
    const std::size_t carried = repeat == nullptr ? 0 : static_cast<std::size_t>(repeat->carried);
    for (std::size_t i = carried; i < node.results.size(); ++i) {
      if (!read.contains(node.results[i])) found.push_back(fmt::format("result {} of {}", i, node.path));
    }
    std::set<graph::ValueId> inner(body->results.begin(), body->results.end());
    for (const graph::Node& one : body->nodes) inner.insert(one.operands.begin(), one.operands.end());
    const std::vector<graph::ValueId> inputs = graph::inputs_of(*body);
    for (std::size_t i = carried; i < inputs.size(); ++i) {
      if (!inner.contains(inputs[i])) found.push_back(fmt::format("input {} of {}", i, node.path));
    }
    for (std::string& deeper : unread(*body)) found.push_back(std::move(deeper));
  }
  return found;
}

TEST(StepGraph, HandsOnNothingThatIsNotRead) {
  for (const std::string& model : {kTinyModel, kTinyMixtral, kTinyDeepseek, kTinyGptOss}) {
    for (const std::string& policy : policies()) {
      for (const std::string more : {"", " gradient_accumulation_steps=2", " scan_layers=false", " sparse_matmul=false"}) {
        const session::Session session = test::session(model + "remat_policy=" + policy + more);
        EXPECT_THAT(unread(step_graph(session.graph, session.loaded.settings)), testing::IsEmpty()) << model << policy << more;
      }
    }
  }
}

graph::Graph step_of(const std::string& request, const Keep& keep = {}, std::int64_t devices = 1) {
  const session::Session session = test::session(request);
  return step_graph(session.graph, session.loaded.settings, keep, devices);
}

// For a model with experts and a balance loss, with and without microbatches.
TEST(StepGraph, NamesAllThatItGives) {
  const std::set<std::string> metrics{"loss",          "lm_loss",   "balance_loss", "positions", "expert_load",
                                      "raw_grad_norm", "grad_norm", "param_norm",   "applied"};
  for (const std::string microbatches : {"1", "2"}) {
    const std::string request = kTinyMixtral + "load_balance_loss_weight=0.1 gradient_accumulation_steps=" + microbatches;
    const session::Session session = test::session(request);
    std::set<std::string> expected = metrics;
    std::set<std::string> kept{"logits", "gradient_factor"};
    for (const Trained& trained : trained_parameters(session.graph, session.loaded.settings)) {
      for (const std::string& name : {trained.path, trained.mu(), trained.nu()}) expected.insert(name);
      kept.insert("gradient/" + trained.path);
    }
    const graph::Graph plain = step_of(request);
    EXPECT_EQ(std::set<std::string>(plain.result_names.begin(), plain.result_names.end()), expected);
    EXPECT_EQ(plain.result_names.size(), plain.results.size());
    const graph::Graph keeping = step_of(request, {true, true});
    expected.insert(kept.begin(), kept.end());
    EXPECT_EQ(std::set<std::string>(keeping.result_names.begin(), keeping.result_names.end()), expected);
    EXPECT_EQ(keeping.result_names.size(), expected.size());
  }
}

// Parameters and moments come back with the shape and type that they had, the batch holds all microbatches, and there are two numbers.
TEST(StepGraph, IsGivenStateABatchAndAFewNumbers) {
  using Kind = graph::InputOf::Kind;
  for (const std::int64_t microbatches : {1, 3}) {
    const graph::Graph graph = step_of(kTinyMixtral + fmt::format("opt_type=muon gradient_accumulation_steps={}", microbatches));
    std::set<std::string> numbers;
    for (const graph::Node& node : graph.nodes) {
      if (!graph::is_root(node)) continue;
      const graph::Value& given = graph.value(node.results.front());
      if (graph::is_input(node, Kind::number)) numbers.insert(node.path);
      if (graph::is_input(node, Kind::batch)) {
        EXPECT_EQ(given.shape, microbatches == 1 ? (Shape{2, 7}) : (Shape{3, 2, 7}));
      }
      const int result = find_result(graph, node.path);
      EXPECT_EQ(result >= 0, node.op == graph::Op::parameter || graph::is_input(node, Kind::moment)) << node.path;
      if (result < 0) continue;
      const graph::Value& changed = graph.value(graph.results[static_cast<std::size_t>(result)]);
      EXPECT_EQ(changed.shape, given.shape) << node.path;
      EXPECT_EQ(changed.dtype, given.dtype) << node.path;
    }
    EXPECT_EQ(numbers, (std::set<std::string>{"learning_rate", "step"}));
  }
}

template <typename Visit>
void for_each_node(const graph::Graph& graph, const Visit& visit) {
  for (const graph::Node& node : graph.nodes) {
    visit(graph, node);
    if (const graph::Graph* body = graph::body_of(node)) for_each_node(*body, visit);
  }
}

// Updates read scalars as they are.
TEST(StepGraph, BroadcastsNoScalarToTheSizeOfAParameter) {
  for (const std::string optimizer : {"adamw", "adam_pax", "sgd", "muon"}) {
    for (const std::string scan : {"true", "false"}) {
      std::int64_t updates = 0;
      const graph::Graph graph =
          step_of(kTinyDeepseek + "gradient_accumulation_steps=2 gradient_clipping_threshold=1 routed_bias_update_rate=0.1 " +
                  "opt_type=" + optimizer + " scan_layers=" + scan);
      for_each_node(graph, [&](const graph::Graph& in, const graph::Node& node) {
        if (node.phase != graph::Phase::update) return;
        ++updates;
        EXPECT_NE(node.op, graph::Op::broadcast) << node.path;
        if (node.op == graph::Op::fill) {
          EXPECT_LE(elements(in.value(node.results[0]).shape), 16) << node.path << ": at most one for each expert";
        }
      });
      EXPECT_GT(updates, 50) << optimizer;
    }
  }
}

// Checks bodies too. What a layer computes again for its backward pass still belongs to the forward pass.
void expect_ticks_in_the_backward_pass(const graph::Graph& graph) {
  for_each_node(graph, [](const graph::Graph&, const graph::Node& node) {
    const bool has_tick = node.path.find('\'') != std::string::npos;
    if (!graph::is_root(node)) {
      EXPECT_EQ(has_tick, node.phase == graph::Phase::backward) << node.path;
    }
  });
}

TEST(StepGraph, MarksTheNodesOfTheBackwardPassWhosePathsBearATick) {
  for (const std::string& request : {kTinyMixtral, kTinyMixtral + "sparse_matmul=false capacity_factor=1.25", kTinyDeepseek}) {
    const graph::Graph graph = step_of(request);
    expect_ticks_in_the_backward_pass(graph);
    const auto phase_of = [&](const char* name) {
      return graph.producer_of(graph.results[static_cast<std::size_t>(find_result(graph, name))]).phase;
    };
    EXPECT_EQ(phase_of("expert_load"), graph::Phase::forward);
    EXPECT_EQ(phase_of("token_embedder/embedding"), graph::Phase::update);
  }
}

// Experts are computed forward, once more, and backward, even if what follows them in the layer reads their result again.
TEST(StepGraph, ComputesExpertsOnceMoreForAllThatReadThem) {
  for (const char* norms : {"use_post_ffw_norm=false ", "use_post_ffw_norm=true "}) {
    int products = 0;
    const std::string request = kTinyModel + "model_name=envy-test override_model_config=true sparse_matmul=true remat_policy=full ";
    for_each_node(step_of(request + norms),
                  [&](const graph::Graph&, const graph::Node& node) { products += node.op == graph::Op::grouped_matmul ? 1 : 0; });
    EXPECT_EQ(products, 3 * 3) << norms;
  }
}

// The collectives and copies that the partitioner adds belong to the phase of their nodes.
TEST(StepProgram, KeepsThePhasesOfItsNodes) {
  const session::Session session = test::session(kTinyMixtral + "num_experts=4 compile_topology=cpu-4 ici_fsdp_parallelism=2 "
                                                 "ici_expert_parallelism=2 per_device_batch_size=1");
  const StepProgram step = step_program(session.graph, session.loaded.settings, {session.layout, session.target});
  expect_ticks_in_the_backward_pass(step.graph);
}

TEST(StepGraph, RoundsGradientsWhereThatIsAsked) {
  const auto narrow = gradients_by_parameter(kTinyModel + "grad_dtype=bfloat16");
  const auto wide = gradients_by_parameter(kTinyModel);
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

// As in MaxText, where the gradients of several microbatches are rounded once, when they are those of the reported loss.
TEST(StepGraph, RoundsWhatMicrobatchesAddUpTo) {
  const std::string request = kTinyModel + "gradient_accumulation_steps=2 ";
  Training training(request, 2, test::kKeepAll);
  const StepResults made = training.trainer.run_step(training.batch());
  const float factor = 1 / static_cast<float>(made.metrics.total_weights);
  const auto narrow = gradients_by_parameter(request + "grad_dtype=bfloat16");
  ASSERT_EQ(narrow.size(), made.gradients.size() + 1);
  for (std::size_t i = 0; i < made.gradients.size(); ++i) {
    const std::vector<double> sums = test::numbers_of(made.gradients[i]);
    for (std::size_t k = 0; k < sums.size(); ++k)
      EXPECT_EQ(narrow[i + 1][k], static_cast<float>(bfloat16(static_cast<float>(sums[k]) * factor)));
  }
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

// A stack of layers and the same layers unrolled have the same loss, and gradients that are slices of the stacked ones.
TEST(StepGraph, IsTheSameForLayersWrittenOneByOne) {
  Training scanned(kTinyMixtral + "scan_layers=true", 2, test::kKeepAll);
  Training unscanned(kTinyMixtral + "scan_layers=false", 2, test::kKeepAll);
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
  const StepResults a = scanned.trainer.run_step(scanned.batch());
  const StepResults b = unscanned.trainer.run_step(unscanned.batch());
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

// The reported z-loss is what z_loss_multiplier adds to the loss, however the loss is computed.
TEST(ZLoss, IsThePartOfTheLossThatItsKeyMakes) {
  const std::string over_words = "compile_topology=cpu-2 ici_fsdp_parallelism=1 ici_tensor_parallelism=2 vocab_size=24 base_num_kv_heads=2 ";
  for (const std::string& more :
       {std::string(), std::string("dtype=bfloat16 "), std::string("logits_via_embedding=true "), std::string("num_vocab_tiling=2 "),
        std::string("mtp_num_layers=1 "), std::string("compile_topology=cpu-2 ici_fsdp_parallelism=2 "), over_words,
        over_words + "num_vocab_tiling=2 ", std::string("gradient_accumulation_steps=2 ")}) {
    Training with(kTinyModel + more + "z_loss_multiplier=0.01"), without(kTinyModel + more);
    const StepMetrics found = with.trainer.step(with.batch()), plain = without.trainer.step(without.batch());
    const double microbatches = more.starts_with("gradient") ? 2 : 1;  // whose parts are summed, as in MaxText
    EXPECT_NEAR(found.z_loss / microbatches, found.lm_loss - plain.lm_loss, 1e-5) << more;
    EXPECT_GT(found.z_loss, 0.01) << more;
    EXPECT_EQ(plain.z_loss, 0) << more;
  }
}

}  // namespace
}  // namespace moesh::train
