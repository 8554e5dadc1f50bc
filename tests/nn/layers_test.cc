// What layers ask of the ops they are made of: rotations, initial values, and the labels and types of values.
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/nn/nodes.h"
#include "tests/support.h"

namespace moesh::nn {
namespace {

using test::attributes_at;
using test::see_all;
using ::testing::ElementsAre;

const std::string kSmall = "override_model_config=true base_num_decoder_layers=2 compile_topology=cpu-1 per_device_batch_size=1 ";

session::Session decoding(const std::string& request, session::DecodeStage stage = session::DecodeStage::token) {
  return session::open_to_decode(test::words_of(request), stage);
}

TEST(Rotation, OfYarnBeginsWithATimescaleOfOne) {
  const std::string request = kSmall + "rope_min_timescale=3 ";
  EXPECT_EQ(attributes_at<graph::RopeOf>(test::session(request).graph, "rope").min_timescale, 3);
  EXPECT_EQ(attributes_at<graph::RopeOf>(test::session(request + "rope_type=yarn").graph, "rope").min_timescale, 1);
}

// The pairs that turn have the timescales of a whole head's first pairs.
TEST(Rotation, OfAPartOfAHeadKeepsTheTimescalesOfTheWhole) {
  const std::string request =
      kSmall +
      "model_name=gemma4-31b base_num_decoder_layers=6 rope_min_timescale=2 global_rope_max_timescale=162 rope_linear_scaling_factor=4 ";
  const auto of = [&](const std::string& share) {
    return attributes_at<graph::RopeOf>(test::session(request + share).graph, "global_layer/self_attention/rope");
  };
  const graph::RopeOf whole = of("global_rope_proportion=1"), part = of("global_rope_proportion=0.25");
  EXPECT_DOUBLE_EQ(whole.max_timescale, 162);
  EXPECT_EQ(whole.linear_scaling, 4);
  EXPECT_DOUBLE_EQ(part.max_timescale, 2 * 3) << "the fourth root of 162 / 2 is 3";
  EXPECT_EQ(part.linear_scaling, 1) << "as in the reference";
}

// How many inputs each kernel's deviation is divided by the root of.
TEST(Initializers, CountTheInputsThatAnOutputSums) {
  const auto inputs = [](const graph::Graph& graph) {
    std::map<std::string, std::int64_t> made;
    see_all(graph, [&](const graph::Graph&, const graph::Node& node) {
      const auto* of = std::get_if<graph::ParameterOf>(&node.attributes);
      if (of != nullptr && of->initializer.kind == graph::Initializer::Kind::fan_in)
        made[node.path.substr(node.path.rfind('/', node.path.rfind('/') - 1) + 1)] = of->initializer.fan_in;
    });
    return made;
  };
  const std::string sizes = "base_emb_dim=48 base_mlp_dim=80 base_num_query_heads=6 base_num_kv_heads=2 head_dim=10 vocab_size=100 ";
  const auto plain = inputs(test::session(kSmall + sizes).graph);
  EXPECT_EQ(plain.at("query/kernel"), 48);
  EXPECT_EQ(plain.at("out/kernel"), 60) << "heads times their size";
  EXPECT_EQ(plain.at("wi_0/kernel"), 48);
  EXPECT_EQ(plain.at("wo/kernel"), 80);
  EXPECT_EQ(inputs(test::session(kSmall + sizes + "fused_mlp=true").graph).at("wi/kernel"), 48);
  const auto latent =
      inputs(test::session(kSmall + "model_name=deepseek3-tiny base_num_decoder_layers=2 first_num_dense_layers=1 mtp_num_layers=1 "
                                    "base_emb_dim=48 q_lora_rank=20 kv_lora_rank=12")
                 .graph);
  EXPECT_EQ(latent.at("wq_a/kernel"), 48);
  EXPECT_EQ(latent.at("wq_b/kernel"), 20);
  EXPECT_EQ(latent.at("wkv_b/kernel"), 12);
  EXPECT_EQ(latent.at("mtp_1_projection/kernel"), 96) << "embeddings beside hidden states";
}

// As in MaxText, kernels of attention and of streams start as whole normals, all others as normals that are cut.
TEST(Initializers, HaveTailsInAttentionAndStreams) {
  using graph::Role;
  const std::set<Role> whole{Role::attention_kernel,     Role::attention_fused_kernel,    Role::attention_down_kernel,
                             Role::attention_out_kernel, Role::attention_flat_out_kernel, Role::attention_group_kernel,
                             Role::index_kernel,         Role::index_down_kernel,         Role::stream_kernel};
  std::set<Role> seen;
  for (const char* model :
       {"model_name=llama2-7b", "model_name=default decoder_block=default fused_qkv=true", "model_name=gpt3-52k",
        "model_name=deepseek4-tiny",
        "model_name=deepseek3-tiny q_lora_rank=32 use_indexer=true indexer_n_heads=8 indexer_head_dim=72 indexer_topk=5",
        "model_name=deepseek3-tiny mhc_expansion_rate=3", "model_name=qwen3-next-80b-a3b base_num_decoder_layers=4",
        "model_name=qwen3-custom-30b-a3b"}) {
    const std::string request = std::string("override_model_config=true compile_topology=cpu-1 per_device_batch_size=1 ") + model;
    see_all(test::session(request).graph, [&](const graph::Graph&, const graph::Node& node) {
      const auto* of = std::get_if<graph::ParameterOf>(&node.attributes);
      if (of == nullptr || of->initializer.kind != graph::Initializer::Kind::fan_in) return;
      EXPECT_EQ(of->initializer.has_tails, whole.contains(of->role)) << model << ": " << node.path;
      seen.insert(of->role);
    });
  }
  for (const Role role : whole) EXPECT_TRUE(seen.contains(role)) << static_cast<int>(role);
  for (const Role role : {Role::mlp_kernel, Role::expert_kernel, Role::router_kernel, Role::delta_kernel, Role::output_projection})
    EXPECT_TRUE(seen.contains(role)) << static_cast<int>(role);
}

TEST(LatentAttention, HasAnEpsilonOfItsOwnInItsNorms) {
  const graph::Graph graph =
      test::session("model_name=deepseek3-tiny override_model_config=true mla_norm_epsilon=0.25 normalization_layer_epsilon=0.5").graph;
  for (const char* norm : {"self_attention/q_norm", "self_attention/kv_norm"})
    EXPECT_EQ(attributes_at<graph::RmsNormOf>(graph, norm).epsilon, 0.25) << norm;
  EXPECT_EQ(attributes_at<graph::RmsNormOf>(graph, "decoder_norm").epsilon, 0.5);
  const graph::Graph without = test::session("model_name=deepseek3-tiny override_model_config=true mla_norm_epsilon=0").graph;
  EXPECT_EQ(attributes_at<graph::RmsNormOf>(without, "self_attention/kv_norm").epsilon, 0);
}

// A program of decoding reads keys by the cache's slots: all queries cost the same, wherever they lie.
TEST(AttentionLayer, BalancesItsQueriesInTrainingOnly) {
  const std::string request = kSmall + "max_prefill_predict_length=64 ";
  EXPECT_EQ(attributes_at<graph::AttentionOf>(test::session(request).graph, "attention_op").balanced_over, 1);
  for (const session::DecodeStage stage : {session::DecodeStage::token, session::DecodeStage::prompt})
    EXPECT_EQ(attributes_at<graph::AttentionOf>(decoding(request, stage).graph, "attention_op").balanced_over, 0);
}

// As in MaxText: each device needs whole projections where a row of decoding is divided.
TEST(AttentionLayer, HasWholeProjectionsIfContextOfDecodingIsDivided) {
  const auto lies = [](const std::string& more, const std::string& path) {
    const session::Session found = test::session(
        "override_model_config=true base_num_decoder_layers=2 compile_topology=cpu-4 ici_fsdp_parallelism=1 ici_tensor_parallelism=2 " +
        more);
    return test::lies(found.layout, test::tensor_at(found.layout.parameters, "decoder/layers/" + path));
  };
  const std::string divided = "ici_context_autoregressive_parallelism=2";
  EXPECT_EQ(lies("ici_data_parallelism=2", "self_attention/query/kernel"), "[-, -, tensor, -]");
  EXPECT_EQ(lies(divided, "self_attention/query/kernel"), "[-, -, -, -]");
  EXPECT_EQ(lies(divided, "self_attention/out/kernel"), "[-, -, -, -]");
  EXPECT_EQ(lies(divided, "mlp/wi_0/kernel"), "[-, -, tensor]");
}

TEST(AttentionLayer, LabelsTheKeysOfDecodingAsKeys) {
  const auto labels = [](const session::Session& session, const std::string& path) {
    return test::tensor_at(session.layout.activations, "decoder/layers/self_attention/" + path).labels();
  };
  const session::Session step = decoding(kSmall);
  EXPECT_THAT(labels(step, "query"), ElementsAre("decode_batch", "decode_length", "activation_heads", "activation_kv"));
  for (const char* path : {"key", "value"})
    EXPECT_THAT(labels(step, path), ElementsAre("decode_batch", "decode_length", "activation_kv_heads", "activation_kv")) << path;
}

// Keys come from the whole cache in a prefill, in training from the row itself. The prompt fills the cache and latents are wide, so keys are
// made of them.
TEST(LatentAttention, LabelsTheKeysOfAPrefillAsThoseOfTheCache) {
  const std::string request =
      "model_name=deepseek3-tiny override_model_config=true first_num_dense_layers=1 base_num_decoder_layers=2 compile_topology=cpu-1 "
      "per_device_batch_size=1 max_target_length=64 max_prefill_predict_length=64 kv_lora_rank=512 ";
  const auto length_of = [](const session::Session& session, const std::string& name) {
    return test::tensor_at(session.layout.activations, "decoder/moe_layers/self_attention/" + name).labels()[1];
  };
  const session::Session prefill = decoding(request, session::DecodeStage::prompt), trained = test::session(request);
  EXPECT_EQ(length_of(prefill, "query"), "prefill_activation_length");
  EXPECT_EQ(length_of(prefill, "key"), "activation_kv_length");
  EXPECT_EQ(length_of(trained, "key"), "activation_length");
}

// Decoding keeps parameters in the type that it reads them in if that is the narrower one.
TEST(Parameters, AreKeptForDecodingInTheNarrowerType) {
  const auto kept = [](const graph::Graph& graph) {
    std::optional<DType> dtype;
    see_all(graph, [&](const graph::Graph& of, const graph::Node& node) {
      if (node.path.ends_with("self_attention/query/kernel") && node.op == graph::Op::parameter) dtype = of.value(node.results[0]).dtype;
    });
    return dtype;
  };
  const std::string narrow = kSmall + "weight_dtype=float32 dtype=bfloat16", wide = kSmall + "weight_dtype=bfloat16 dtype=float32";
  EXPECT_EQ(kept(test::session(narrow).graph), DType::float32);
  EXPECT_EQ(kept(decoding(narrow).graph), DType::bfloat16);
  EXPECT_EQ(kept(decoding(wide).graph), DType::bfloat16);
}

}  // namespace
}  // namespace moesh::nn
