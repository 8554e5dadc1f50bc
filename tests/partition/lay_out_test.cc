// Tests the layouts that follow from a graph and a mesh: of parameters, constraints, inputs and optimizer state.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support.h"

namespace moesh::partition {
namespace {

using test::lies;
using test::session;
using test::tensor_at;
using ::testing::HasSubstr;

const std::string kCapacity =
    "model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=4 sparse_matmul=false capacity_factor=1.25 ";

TEST(LayOut, SortsParametersByPath) {
  const sharding::Layout layout = session("model_name=mixtral-8x7b").layout;
  EXPECT_TRUE(std::is_sorted(layout.parameters.begin(), layout.parameters.end(),
                             [](const auto& a, const auto& b) { return a.path < b.path; }));
}

// `why` explains a path, and two layouts are compared by paths.
TEST(LayOut, GivesEachTensorAPathOfItsOwn) {
  const std::string tiny = "num_experts=4 base_num_decoder_layers=1 per_device_batch_size=2 compile_topology=cpu-4 ici_fsdp_parallelism=1 ";
  for (const std::string& request : {tiny + "decoder_block=mixtral ici_tensor_sequence_parallelism=4",
                                    tiny + "decoder_block=mixtral mlp_bias=true ici_expert_parallelism=4",
                                    tiny + "decoder_block=mixtral mtp_num_layers=1 ici_expert_parallelism=4",
                                    tiny + "decoder_block=mixtral ici_expert_parallelism=4 use_batch_split_schedule=true "
                                           "batch_split_factor=2",
                                    tiny + "decoder_block=mixtral ici_tensor_parallelism=2 ici_tensor_sequence_parallelism=2 "
                                           "base_mlp_dim=64 per_device_batch_size=64"}) {
    EXPECT_EQ(test::path_of_two(session(request).layout), "") << request;
  }
}

TEST(LayOut, LinksActivationsToTheirNeighboursBothWays) {
  const sharding::Layout layout = session(kCapacity).layout;
  for (std::size_t i = 0; i < layout.activations.size(); ++i) {
    for (const int source : layout.activations[i].sources) {
      const auto& users = layout.activations[static_cast<std::size_t>(source)].users;
      EXPECT_NE(std::find(users.begin(), users.end(), static_cast<int>(i)), users.end()) << layout.activations[i].path;
    }
    EXPECT_FALSE(layout.activations[i].made_by.empty());
  }
}

TEST(LayOut, FollowsTheFlagOnlyWhereTheExpertAxisIsLargerThanOne) {
  for (const std::string mesh : {"ici_expert_parallelism=1", "ici_expert_parallelism=1 ici_tensor_parallelism=2"}) {
    const session::Session off = session(kCapacity + mesh);
    const session::Session on = session(kCapacity + mesh + " moe_dispatch_no_expert_sharding=true");
    ASSERT_EQ(off.layout.activations.size(), on.layout.activations.size());
    for (std::size_t i = 0; i < off.layout.activations.size(); ++i) {
      EXPECT_EQ(lies(off.layout, off.layout.activations[i]), lies(on.layout, on.layout.activations[i]))
          << off.layout.activations[i].path;
    }
  }
}

TEST(LayOut, PeelsTheDispatchAndLeavesMasksAndTheLastProjection) {
  const sharding::Layout layout = session(kCapacity + "moe_dispatch_no_expert_sharding=true").layout;
  const auto at = [&](const std::string& name) {
    return lies(layout, tensor_at(layout.activations, "decoder/layers/MoeBlock_0/" + name));
  };
  EXPECT_EQ(at("dispatched"), "[expert, fsdp, -, -]");
  EXPECT_EQ(at("hidden_0"), "[expert, fsdp, -, -]");
  EXPECT_EQ(at("intermediate"), "[-, (fsdp, expert), -, -]");
  EXPECT_EQ(at("dispatch_mask"), "[(fsdp, expert), -, -, -]");
}

TEST(LayOut, StripsFsdpOffTheKernelsOfTheSparsePath) {
  const sharding::Layout layout =
      session("model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=4").layout;
  EXPECT_EQ(lies(layout, tensor_at(layout.activations, "decoder/layers/MoeBlock_0/w0_kernel")), "[expert, -, -]");
  EXPECT_EQ(lies(layout, tensor_at(layout.parameters, "decoder/layers/MoeBlock_0/wi_0")), "[expert, -, fsdp, -]");
}

TEST(LayOut, GivesEachOptimizerItsMoments) {
  const auto moments = [](const std::string& request) {
    return session("model_name=llama2-7b " + request).layout.moments;
  };
  const std::size_t parameters = session("model_name=llama2-7b").layout.parameters.size();
  EXPECT_EQ(moments("opt_type=adamw").size(), 2 * parameters);
  EXPECT_EQ(moments("opt_type=sgd").size(), 0u);
  for (const sharding::LaidTensor& moment : moments("mu_dtype=bfloat16")) {
    EXPECT_EQ(moment.dtype, moment.path.starts_with("mu/") ? DType::bfloat16 : DType::float32) << moment.path;
  }
}

TEST(LayOut, SpreadsMomentsOverDataOnRequest) {
  const session::Session zero1 = session(
      "model_name=llama2-7b compile_topology=v6e-8 ici_data_parallelism=2 ici_fsdp_parallelism=4 "
      "shard_optimizer_over_data=true");
  const sharding::Layout& layout = zero1.layout;
  EXPECT_EQ(lies(layout, tensor_at(layout.parameters, "decoder/layers/mlp/wo/kernel")), "[-, -, fsdp]");
  EXPECT_EQ(lies(layout, tensor_at(layout.moments, "mu/decoder/layers/mlp/wo/kernel")), "[-, data, fsdp]")
      << "dim 0 has tensor";
}

TEST(LayOut, ReportsUnevenDimsWhenTheyAreNotAnError) {
  const std::string odd =
      "compile_topology=v6e-8 ici_fsdp_parallelism=1 ici_tensor_parallelism=8 base_num_query_heads=4 "
      "base_num_kv_heads=4";
  EXPECT_THAT(test::message_of([&] { session(odd); }), HasSubstr("does not divide over tensor=8 = 8 shards"));
  EXPECT_EQ(test::message_of([&] { session::open(test::words_of(odd), Evenness::reported); }), "no error");
}

TEST(LayOut, KeepsOneMomentOfMatricesUnderMuonAndTwoOfAllElse) {
  const sharding::Layout layout = session("model_name=deepseek3-tiny opt_type=muon").layout;
  const auto has = [&](const std::string& path) {
    return std::any_of(layout.moments.begin(), layout.moments.end(), [&](const auto& m) { return m.path == path; });
  };
  for (const std::string path :
       {"decoder/moe_layers/DeepSeekMoeBlock_0/MoeBlock_0/wi_0", "decoder/dense_layers/mlp/wo/kernel",
        "decoder/dense_layers/self_attention/wq_a/kernel"}) {
    EXPECT_NO_THROW(tensor_at(layout.parameters, path));
    EXPECT_TRUE(has("mu/" + path) && !has("nu/" + path)) << path;
  }
  for (const std::string path :
       {"token_embedder/embedding", "decoder/logits_dense/kernel", "decoder/decoder_norm/scale",
        "decoder/moe_layers/DeepSeekMoeBlock_0/MoeBlock_0/gate/bias"}) {
    EXPECT_NO_THROW(tensor_at(layout.parameters, path));
    EXPECT_TRUE(has("mu/" + path) && has("nu/" + path)) << path;
  }
}

// Only with expert parallelism: without it they enter whole.
TEST(LayOut, RefusesARegionWhoseTokensDoNotDivide) {
  const std::string half = "model_name=mixtral-8x7b compile_topology=v6e-8 per_device_batch_size=0.5 ";
  EXPECT_THAT(test::message_of([&] { session(half + "ici_fsdp_parallelism=4 ici_expert_parallelism=2"); }),
              HasSubstr("decoder/layers/MoeBlock_0/inputs: dim 0 ('activation_batch', size 4) does not divide over "));
  const sharding::LaidTensor inputs = tensor_at(session(half).layout.activations, "decoder/layers/MoeBlock_0/inputs");
  EXPECT_EQ(sharding::shards(inputs.spec, session(half).mesh), 1);
}

}  // namespace
}  // namespace moesh::partition
