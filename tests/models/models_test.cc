// Tests of the graph of every preset: it is well formed, has the known number of parameters, and is the same model scanned and unscanned,
// with every strategy for the experts.
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/builtin.h"
#include "graph/print.h"
#include "models/model.h"
#include "tests/recorded.h"
#include "tests/support.h"

namespace moesh::models {
namespace {

using test::message_of;
using test::session;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::int64_t parameters_of(const sharding::Layout& layout) {
  std::int64_t count = 0;
  for (const sharding::LaidTensor& tensor : layout.parameters) count += elements(tensor.shape);
  return count;
}

struct KnownTotal {
  std::string model;
  double parameters;
};

TEST(Presets, HaveTheKnownNumbersOfParameters) {
  const std::vector<KnownTotal> known{
      {"llama2-7b", 6.738e9},       {"llama2-13b", 13.016e9},     {"llama2-70b", 68.98e9},
      {"llama3-8b", 8.030e9},       {"llama3-70b", 70.55e9},      {"llama3-405b", 405.9e9},
      {"llama3.1-8b", 8.030e9},     {"llama3.1-70b", 70.55e9},    {"llama3.1-405b", 405.9e9},
      {"llama3.3-70b", 70.55e9},    {"mistral-7b", 7.242e9},      {"mixtral-8x7b", 46.70e9},
      {"mixtral-8x22b", 140.6e9},   {"deepseek2-16b", 15.71e9},   {"deepseek2-236b", 235.7e9},
      {"deepseek3-671b", 671.0e9},  {"kimi-k2-1t", 1026e9},       {"qwen3-0.6b", 0.596e9},
      {"qwen3-1.7b", 1.72e9},       {"qwen3-4b", 4.02e9},         {"qwen3-8b", 8.19e9},
      {"qwen3-14b", 14.77e9},       {"qwen3-32b", 32.76e9},       {"qwen3-30b-a3b", 30.53e9},
      {"qwen3-235b-a22b", 235.1e9}, {"qwen3-480b-a35b", 480.2e9}, {"gpt-oss-20b", 20.91e9},
      {"gpt-oss-120b", 116.8e9},
  };
  for (const KnownTotal& total : known) {
    const double ours = static_cast<double>(parameters_of(session("model_name=" + total.model).layout));
    EXPECT_LT(std::abs(ours / total.parameters - 1), 0.01) << total.model << " has " << ours;
  }
}

// Expects that nodes use only values made before them, and that a repeat has as many operands and results as its body.
void expect_whole(const graph::Graph& graph) {
  std::set<graph::ValueId> made;
  for (const graph::Node& node : graph.nodes) {
    for (const graph::ValueId operand : node.operands) EXPECT_TRUE(made.contains(operand)) << node.path;
    for (const graph::ValueId result : node.results) EXPECT_TRUE(made.insert(result).second) << node.path;
    const auto* repeat = std::get_if<graph::RepeatOf>(&node.attributes);
    if (repeat == nullptr) continue;
    std::size_t inputs = 0;
    for (const graph::Node& inner : repeat->body->nodes) inputs += inner.op == graph::Op::input ? 1 : 0;
    EXPECT_EQ(inputs, node.operands.size()) << node.path;
    EXPECT_EQ(repeat->body->results.size(), node.results.size()) << node.path;
    expect_whole(*repeat->body);
  }
  for (const graph::ValueId result : graph.results) EXPECT_TRUE(made.contains(result));
}

void expect_unique_paths(const std::vector<sharding::LaidTensor>& tensors) {
  std::set<std::string> paths;
  for (const sharding::LaidTensor& tensor : tensors) EXPECT_TRUE(paths.insert(tensor.path).second) << tensor.path;
}

const std::vector<std::string> kStrategies{"sparse_matmul=true", "sparse_matmul=true use_ring_of_experts=true",
                                           "sparse_matmul=false", "sparse_matmul=false capacity_factor=1.25"};

class Preset : public ::testing::TestWithParam<std::string> {
 protected:
  std::string small() const {
    const config::ModelShape shape = session("model_name=" + GetParam()).shape;
    return "model_name=" + GetParam() +
           " override_model_config=true base_num_decoder_layers=4 per_device_batch_size=1 " +
           "compile_topology=v6e-4 ici_fsdp_parallelism=2 " +
           (shape.is_moe() ? "ici_expert_parallelism=2 " : "ici_data_parallelism=2 ") +
           (shape.dense_layers > 0 ? "first_num_dense_layers=1 " : "") +
           (shape.given_layers > 0 ? "base_num_decoder_layers=5 " : "");  // those, and a pair
  }

  std::vector<std::string> strategies() const {
    const config::ModelShape shape = session("model_name=" + GetParam()).shape;
    if (!shape.is_moe()) return {""};
    std::vector<std::string> all = kStrategies;
    if (shape.block == config::Block::gpt_oss) all.pop_back();  // it has no capacity path
    for (std::string& strategy : all) {
      if (strategy.find("sparse_matmul=false") == std::string::npos) continue;
      strategy += " use_batch_split_schedule=false";
    }
    return all;
  }
};

TEST_P(Preset, IsTheSameModelScannedAndUnscannedByEveryStrategy) {
  std::set<std::int64_t> counts;
  for (const std::string& strategy : strategies()) {
    for (const char* scan : {" scan_layers=true", " scan_layers=false"}) {
      SCOPED_TRACE(strategy + scan);
      const session::Session found = session(small() + strategy + scan);
      expect_whole(found.graph);
      expect_unique_paths(found.layout.parameters);
      expect_unique_paths(found.layout.activations);
      counts.insert(parameters_of(found.layout));
      EXPECT_FALSE(found.layout.activations.empty());
    }
  }
  EXPECT_EQ(counts.size(), 1u) << "one model, however it is computed";
}

INSTANTIATE_TEST_SUITE_P(All, Preset, ::testing::ValuesIn(config::builtin_names("models")), test::test_name);

TEST(Models, RefuseRowsThatDoNotMakeTheParts) {
  const std::string request = "model_name=deepseek3-tiny compile_topology=cpu-4 use_batch_split_schedule=true batch_split_factor=2 ";
  EXPECT_EQ(test::message_of([&] { session(request + "per_device_batch_size=1"); }),
            "the command line: batch_split_factor=2 does not divide the rows that a device has in a pass, of 4 rows on 4 shards\n"
            "  fix: a larger per_device_batch_size (or eval_per_device_batch_size), or fewer gradient_accumulation_steps");
  EXPECT_FALSE(session(request + "per_device_batch_size=2").graph.nodes.empty());
}

TEST(Models, NameTheirResults) {
  const auto names = [](const std::string& request) { return session(request).graph.result_names; };
  EXPECT_THAT(names("model_name=llama2-7b"), Contains(results::loss));
  EXPECT_THAT(names("model_name=llama2-7b"), Not(Contains(results::balance_loss)));
  EXPECT_THAT(names("model_name=mixtral-8x7b"), Not(Contains(results::balance_loss)));
  EXPECT_THAT(names("model_name=mixtral-8x7b load_balance_loss_weight=0.01"), Contains(results::balance_loss));
}

TEST(Models, PredictAheadWithModulesOfTheirOwn) {
  const std::string request = "model_name=deepseek3-tiny override_model_config=true first_num_dense_layers=1 base_num_decoder_layers=3 ";
  const session::Session none = session(request), two = session(request + "mtp_num_layers=2");
  EXPECT_THAT(none.graph.result_names, Not(Contains(results::mtp_loss)));
  EXPECT_THAT(two.graph.result_names, Contains(results::mtp_loss));
  const auto paths = [](const session::Session& of) {
    std::set<std::string> all;
    for (const sharding::LaidTensor& parameter : of.layout.parameters) all.insert(parameter.path);
    return all;
  };
  std::set<std::string> own = paths(two);
  for (const std::string& path : paths(none)) EXPECT_EQ(own.erase(path), 1u) << path;
  for (const std::string& path : own) EXPECT_TRUE(path.starts_with("mtp_block/mtp_layer_")) << path;
  EXPECT_EQ(own.size() % 2, 0u);
  EXPECT_TRUE(own.contains("mtp_block/mtp_layer_2/mtp_2_transformer_layer/DeepSeekMoeBlock_0/MoeBlock_0/wo"));
  expect_whole(two.graph);
  expect_unique_paths(two.layout.parameters);
  // Where layers differ, a module has a cycle of them.
  const session::Session cycle = session("model_name=gpt-oss-20b override_model_config=true base_num_decoder_layers=2 mtp_num_layers=1");
  EXPECT_TRUE(paths(cycle).contains("mtp_block/mtp_layer_1/mtp_1_transformer_layer/layers_1/GptOssMlp/wo"));
}

TEST(Models, PredictAheadOnlyWhereTheReferenceDoes) {
  const auto refusal = [](const std::string& request) {
    return test::message_of([&] { session(request + " override_model_config=true mtp_num_layers=1"); });
  };
  EXPECT_THAT(refusal("model_name=gemma3-4b"), HasSubstr("multi-token prediction is not there for decoder_block=gemma3"));
  EXPECT_THAT(refusal("model_name=llama4-17b-16e"), HasSubstr("multi-token prediction is not there for decoder_block=llama4"));
  EXPECT_THAT(refusal("mtp_eval_target_module=2"), HasSubstr("mtp_eval_target_module=2, of 1 module"));
  EXPECT_THAT(refusal("model_name=gpt-oss-20b scan_layers=false"),
              HasSubstr("a module of multi-token prediction has a whole cycle of layers, and scan_layers=false has none"));
  EXPECT_THAT(refusal("model_name=deepseek3-tiny base_num_decoder_layers=2 first_num_dense_layers=2"),
              HasSubstr("a module of multi-token prediction has a layer like the model's last, and no layer has experts"));
}

TEST(Models, WriteEqualLayersOnce) {
  const auto nodes = [](const std::string& layers) {
    return graph::count(
               session("override_model_config=true model_name=deepseek3-671b base_num_decoder_layers=" + layers).graph)
        .nodes;
  };
  EXPECT_EQ(nodes("8"), nodes("61"));
  const auto unscanned = [](const std::string& layers) {
    return graph::count(session("scan_layers=false base_num_decoder_layers=" + layers).graph).nodes;
  };
  EXPECT_LT(unscanned("2"), unscanned("4"));
}

// The attention nodes of a graph, in order: the window and the path of each, as printed.
std::vector<std::string> attentions(const std::string& request) {
  std::vector<std::string> found;
  for (const std::string& line : split(graph::to_text(session(request).graph), '\n')) {
    if (line.find(" = attention ") == std::string::npos) continue;
    const std::size_t window = line.find("window=");
    const std::string seen = window == std::string::npos ? "all" : line.substr(window, line.find(' ', window) - window);
    found.push_back(seen + line.substr(line.find("  # ")));
  }
  return found;
}

TEST(Models, AlternateWindowedAndFullAttentionInGptOss) {
  EXPECT_EQ(attentions("model_name=gpt-oss-20b"),
            (std::vector<std::string>{"window=128  # decoder/layers/layers_0/GptOssAttention/attention_op",
                                      "all  # decoder/layers/layers_1/GptOssAttention/attention_op"}));
  EXPECT_EQ(attentions("model_name=gpt-oss-20b scan_layers=false override_model_config=true base_num_decoder_layers=4"),
            (std::vector<std::string>{"window=128  # decoder/layers_0/GptOssAttention/attention_op",
                                      "all  # decoder/layers_1/GptOssAttention/attention_op",
                                      "window=128  # decoder/layers_2/GptOssAttention/attention_op",
                                      "all  # decoder/layers_3/GptOssAttention/attention_op"}));
}

TEST(Models, NameParametersAsTheReferenceDoes) {
  const auto has = [](const std::string& request, const std::string& path) {
    const session::Session found = session(request);
    for (const sharding::LaidTensor& tensor : found.layout.parameters) {
      if (tensor.path == path) return true;
    }
    return false;
  };
  EXPECT_TRUE(has("model_name=mixtral-8x7b", "decoder/layers/MoeBlock_0/gate/kernel"));
  EXPECT_TRUE(has("model_name=mixtral-8x7b scan_layers=false", "decoder/layers_31/MoeBlock_0/gate/kernel"));
  EXPECT_TRUE(has("model_name=gpt-oss-20b", "decoder/layers/layers_1/GptOssAttention/sinks"));
  EXPECT_TRUE(has("model_name=deepseek3-671b", "decoder/moe_layers/DeepSeekMoeBlock_0/MoeBlock_0/gate/bias"));
  EXPECT_TRUE(has("model_name=qwen3-0.6b", "decoder/layers/self_attention/query_norm/scale"));
}

TEST(Models, TieTheOutputToTheEmbeddingOnRequest) {
  for (const sharding::LaidTensor& tensor : session("logits_via_embedding=true").layout.parameters) {
    EXPECT_EQ(tensor.path.find("logits_dense"), std::string::npos);
  }
}

TEST(Models, StackLayersOverStages) {
  const session::Session staged = session(
      "compile_topology=v6e-8 ici_pipeline_parallelism=2 ici_fsdp_parallelism=4 num_layers_per_pipeline_stage=4 "
      "per_device_batch_size=2");
  const sharding::LaidTensor& kernel =
      test::tensor_at(staged.layout.parameters, "decoder/pipeline_module/layers/layers_0/mlp/wi_0/kernel");
  EXPECT_EQ(kernel.labels().front(), "circular_repeats");
  EXPECT_EQ(kernel.shape, (Shape{2, 2, 2048, 7168}));
  EXPECT_EQ(test::lies(staged.layout, kernel), "[-, stage, fsdp, -]");
  EXPECT_EQ(parameters_of(staged.layout), parameters_of(session("").layout));
}

TEST(Models, ScanTheLayersOfAStageIfItHasSeveral) {
  const auto has = [](const std::string& request, const std::string& path) {
    const session::Session staged =
        session("compile_topology=v6e-8 ici_pipeline_parallelism=2 ici_fsdp_parallelism=4 per_device_batch_size=2 " + request);
    const auto& all = staged.layout.parameters;
    return std::any_of(all.begin(), all.end(), [&](const auto& tensor) { return tensor.path == "decoder/pipeline_module/layers/" + path; });
  };
  EXPECT_TRUE(has("scan_layers_per_stage=true num_layers_per_pipeline_stage=4", "scanned_layers/mlp/wi_0/kernel"));
  EXPECT_TRUE(has("scan_layers_per_stage=true num_layers_per_pipeline_stage=1", "mlp/wi_0/kernel"));
}

// What is outside the pipeline has its batch over the stages too.
TEST(Models, LayOutModulesOverStagesAsData) {
  const session::Session staged = session(
      "model_name=mixtral-8x7b override_model_config=true base_num_decoder_layers=4 compile_topology=v6e-4 ici_pipeline_parallelism=2 "
      "ici_fsdp_parallelism=2 num_layers_per_pipeline_stage=2 per_device_batch_size=2 mtp_num_layers=1");
  EXPECT_EQ(test::lies(staged.layout, test::tensor_at(staged.layout.activations, "mtp_block/mtp_layer_1/mtp_1_transformer_layer/inputs")),
            "[(stage, fsdp), -, -]");
}

// MaxText rounds a tied table to bfloat16 before it is multiplied with; without that, logits in float32 read all of it.
TEST(Models, KeepATiedTableForDecodingInTheTypeThatAllReadersTake) {
  const auto kept = [](const std::string& more) {
    const session::Session decoding = session::open_to_decode(
        test::words_of("compile_topology=cpu-1 per_device_batch_size=1 weight_dtype=float32 dtype=bfloat16 logits_dot_in_fp32=true " +
                       more),
        session::DecodeStage::token);
    return test::tensor_at(decoding.layout.parameters, "token_embedder/embedding").dtype;
  };
  EXPECT_EQ(kept("logits_via_embedding=false"), DType::bfloat16);
  EXPECT_EQ(kept("logits_via_embedding=true round_tied_embedding=true"), DType::bfloat16);
  EXPECT_EQ(kept("logits_via_embedding=true round_tied_embedding=false"), DType::float32);
}

TEST(Models, RefuseActivationsThatAreNone) {
  EXPECT_EQ(message_of([] { session("mlp_activations=[]"); }),
            "the command line: mlp_activations is empty, a function for each projection was expected\n"
            "  fix: mlp_activations=[silu, linear]");
  EXPECT_THAT(message_of([] { session("decoder_block=mixtral num_experts=4 mlp_activations=[]"); }), HasSubstr("mlp_activations is empty"));
  EXPECT_EQ(message_of([] { session("mlp_activations=[sillu,linear]"); }),
            "the command line: mlp_activations holds 'sillu', one of silu, swish, sigmoid, gelu, relu, linear was expected");
}

TEST(Models, RefuseMorePlacesThanATableHas) {
  EXPECT_EQ(message_of([] { session("model_name=gpt3-52k max_target_length=4096"); }),
            "configs/models/gpt3-52k.yml:11: rows of 4,096 tokens, and a table of 2,048 positions\n  fix: trainable_position_size=4096");
  EXPECT_THAT(message_of([] { session("model_name=gpt3-52k max_target_length=2049"); }), HasSubstr("rows of 2,049 tokens"));
  EXPECT_EQ(message_of([] { session("model_name=gpt3-52k max_target_length=2048"); }), "no error");
  EXPECT_THAT(message_of([] {
                session::open_to_decode({"model_name=gpt3-52k", "max_target_length=4096"}, session::DecodeStage::token);
              }),
              HasSubstr("rows of 4,096 tokens, and a table of 2,048 positions"))
      << "a row of decoding grows to the end of the cache";
}

// The slices of a graph's own values, as printed: where each begins and what it takes.
std::vector<std::string> slices(const std::string& request) {
  std::vector<std::string> found;
  for (const std::string& line : split(graph::to_text(session(request).graph), '\n')) {
    const std::size_t at = line.find(" = slice ");
    if (line.starts_with("%") && at != std::string::npos)
      found.push_back(line.substr(line.find(' ', at + 9) + 1, line.find("  #") - line.find(' ', at + 9) - 1));
  }
  return found;
}

// The keys of random routing, one for each layer.
TEST(Models, DrawForEachLayerOfAModuleToo) {
  const auto keys_of = [](const std::string& more) {
    const graph::Graph graph =
        session("model_name=gpt-oss-20b override_model_config=true base_num_decoder_layers=4 use_random_routing=true " + more).graph;
    for (const graph::Node& node : graph.nodes) {
      if (node.path == inputs::draw_keys) return graph.value(node.results[0]).shape;
    }
    return Shape{};
  };
  EXPECT_EQ(keys_of(""), (Shape{4, 2}));
  EXPECT_EQ(keys_of("mtp_num_layers=2"), (Shape{4 + 2 * 2, 2})) << "each module has a cycle of two layers";
  const std::vector<std::string> found =
      slices("model_name=gpt-oss-20b override_model_config=true base_num_decoder_layers=4 use_random_routing=true mtp_num_layers=2");
  EXPECT_THAT(found, Contains("begin=4 size=2"));
  EXPECT_THAT(found, Contains("begin=6 size=2"));
}

TEST(Models, DrawForTheLayersBehindAPipelineAfterThoseInIt) {
  const std::string request =
      "model_name=mixtral-8x7b override_model_config=true base_num_decoder_layers=5 compile_topology=v6e-4 ici_pipeline_parallelism=2 "
      "ici_fsdp_parallelism=2 num_layers_per_pipeline_stage=1 pipeline_parallel_layers=4 per_device_batch_size=2 use_random_routing=true ";
  EXPECT_THAT(slices(request), Contains("begin=4 size=1"));
  EXPECT_THAT(graph::to_text(session(request).graph), HasSubstr(": int32[2, 2, 1, 2] = reshape "))
      << "repeats, stages and the layers of a stage";
}

TEST(Models, RefuseHeadsThatCannotTurn) {
  EXPECT_THAT(
      message_of([] { session("head_dim=65"); }),
      HasSubstr(
          "self_attention/rope: rotary embedding turns pairs, but the last dim is 65\n  fix: choose an even head_dim"));
}

}  // namespace
}  // namespace moesh::models
