// Command lines of MaxText users, taken word for word after the trainer's name and its configs/base.yml.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/print.h"
#include "tests/support.h"

namespace moesh::cli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kEpAsTp =
    "run_name=x base_output_directory=gs://bucket dataset_path=gs://bucket dataset_type=synthetic steps=5 "
    "enable_checkpointing=False enable_goodput_recording=False \\\n"
    "decoder_block=mixtral num_experts=4 num_experts_per_tok=2 sparse_matmul=True megablox=True "
    "per_device_batch_size=4 base_num_decoder_layers=4 \\\n"
    "ici_data_parallelism=2 ici_expert_parallelism=4 use_ring_of_experts=True custom_mesh_and_rule=ep-tp num_experts=8 "
    "per_device_batch_size=2 expert_shard_attention_option=tp profiler=xplane";

constexpr const char* kOnALaptop = " base_emb_dim=256 base_mlp_dim=512 max_target_length=256";

constexpr const char* kFiveModes =
    "model_name=deepseek3-tiny override_model_config=True base_num_decoder_layers=1 first_num_dense_layers=0 "
    "per_device_batch_size=1.0 max_target_length=1024 \\\n"
    "dcn_pipeline_parallelism=1 dcn_data_parallelism=-1 ici_pipeline_parallelism=1 ici_fsdp_transpose_parallelism=1 "
    "ici_fsdp_parallelism=1 ici_expert_parallelism=-1 \\\n"
    "allow_split_physical_axes=True use_iota_embed=True remat_policy=custom decoder_layer_input=offload opt_type=adamw "
    "mu_dtype=bfloat16 grad_dtype=bfloat16 dtype=bfloat16 weight_dtype=bfloat16 \\\n"
    "use_random_routing=True megablox=True sparse_matmul=True use_custom_sort_vjp=True use_ring_of_experts=True "
    "use_ragged_sort=False shard_exp_on_fsdp=False \\\n"
    "sa_use_fused_bwd_kernel=True sa_block_q=2048 sa_block_kv=2048 sa_block_q_dkv=512 sa_block_kv_dkv=512 "
    "sa_block_kv_dkv_compute=512 sa_block_kv_dq=512 sa_block_q_dq=512 \\\n"
    "attention=flash use_tokamax_splash=False use_max_logit_estimate=-1 cost_estimate_flops_fwd=5000000000000 "
    "cost_estimate_flops_bwd=5000000000000 float32_weight_sum=False use_tokamax_gmm=False \\\n"
    "tokenizer_type=huggingface tokenizer_path=deepseek-ai/DeepSeek-V3 dataset_type=synthetic dataset_path=gs://bucket "
    "enable_checkpointing=False check_vma=False steps=20 attention=dot_product log_config=true \\\n"
    "base_output_directory=out run_name=x";

constexpr const char* kEpAsCpHalf =
    "model_name=deepseek3-test custom_mesh_and_rule=ep-as-cp context_sharding=expert ici_fsdp_parallelism=2 "
    "ici_expert_parallelism=2 per_device_batch_size=0.5";
constexpr const char* kEpAsCp =
    "model_name=deepseek3-test custom_mesh_and_rule=ep-as-cp context_sharding=expert ici_fsdp_parallelism=2 "
    "ici_expert_parallelism=2 per_device_batch_size=1";
constexpr const char* kContext =
    "model_name=deepseek3-test per_device_batch_size=1 ici_fsdp_parallelism=2 ici_context_parallelism=2";
constexpr const char* kEpAsCpAhead =
    "compile_topology=tpu7x-256 compile_topology_num_slices=1 model_name=deepseek3-test custom_mesh_and_rule=ep-as-cp "
    "context_sharding=expert ici_fsdp_parallelism=-1 ici_expert_parallelism=2 per_device_batch_size=0.5";

constexpr const char* kDispatch =
    "model_name=mixtral-8x7b ici_expert_parallelism=-1 capacity_factor=1.25 sparse_matmul=False "
    "per_device_batch_size=11 moe_dispatch_no_expert_sharding=";

constexpr const char* kExpertsOnFsdp =
    "model_name=deepseek2-16b custom_mesh_and_rule=shard-exp-on-fsdp ici_fsdp_parallelism=4 ici_expert_parallelism=2";

session::Session after_base_yml(const std::string& command) { return test::session("src/maxtext/configs/base.yml " + command); }

std::string sizes_of(const session::Session& session) {
  std::vector<std::string> words;
  for (const mesh::Axis& axis : session.mesh.axes()) {
    if (axis.size() > 1) words.push_back(axis.name + "=" + std::to_string(axis.size()));
  }
  return join(words, " ");
}

std::string strategy_of(const session::Session& session) {
  const config::MoeShape& moe = session.shape.moe;
  switch (moe.strategy) {
    case config::MoeStrategy::dense: return "dense";
    case config::MoeStrategy::capacity: return moe.peel_dispatch ? "capacity, peeled" : "capacity";
    case config::MoeStrategy::sparse: return moe.ring ? "ring" : "a2a";
  }
  return "";
}

// Whether the graph has a region that works in this way, "ring" or "all-to-all".
bool has_region(const graph::Graph& graph, const std::string& way) {
  for (const std::string& line : split(graph::to_text(graph), '\n')) {
    const std::string code = line.substr(0, line.find('#'));
    if (code.find("= region ") != std::string::npos && code.find(way) != std::string::npos) return true;
  }
  return false;
}

std::string parameter_lies(const session::Session& session, const std::string& path) {
  return test::lies(session.layout, test::tensor_at(session.layout.parameters, path));
}

std::string activation_lies(const session::Session& session, const std::string& path) {
  return test::lies(session.layout, test::tensor_at(session.layout.activations, path));
}

TEST(Commands, TakeTheBuiltInFileForABaseYmlThatIsNotThere) {
  for (const char* path : {"src/maxtext/configs/base.yml", "maxtext/configs/base.yml"}) {
    const session::Session session = test::session(std::string(path) + " " + kExpertsOnFsdp);
    EXPECT_THAT(session.loaded.notices, Contains(std::string(path) + " is not there; the built-in base.yml is used"));
  }
}

TEST(Commands, EpAsTpRunsAsWritten) {
  const session::Session session = after_base_yml(kEpAsTp);
  EXPECT_EQ(sizes_of(session), "data=2 expert=4");
  EXPECT_EQ(strategy_of(session), "ring");
  EXPECT_EQ(session.shape.moe.experts, 8);
  EXPECT_EQ(session.batch.micro_rows, 16);
  EXPECT_EQ(session.layout.rule_set, "ep-tp");
  EXPECT_THAT(session.loaded.notices, Contains("expert_shard_attention_option=tp is deprecated: "
                                               "custom_mesh_and_rule=ep-tp already says it"));
  // The expert axis does the work of the tensor axis, except that it shards the experts of MoE layers; it never shards a batch.
  EXPECT_EQ(test::lies(session.layout, session.layout.input), "[data, -]");
  EXPECT_EQ(parameter_lies(session, "decoder/layers/self_attention/query/kernel"), "[-, -, expert, -]");
  EXPECT_EQ(parameter_lies(session, "decoder/layers/MoeBlock_0/wi_0"), "[expert, -, -, -]");
  EXPECT_EQ(parameter_lies(session, "token_embedder/embedding"), "[expert, -]");
  EXPECT_EQ(activation_lies(session, "decoder/layers/self_attention/query"), "[data, -, expert, -]");
  for (const sharding::LaidTensor& tensor : session.layout.activations) {
    for (std::size_t dim = 0; dim < tensor.labels().size(); ++dim) {
      if (tensor.labels()[dim].find("batch") == std::string::npos) continue;
      for (const mesh::AxisIndex axis : tensor.spec.dims[dim])
        EXPECT_NE(session.mesh.axis(axis).name, "expert") << tensor.path;
    }
  }
}

TEST(Commands, EpAsTpRunsOnALaptop) {
  const session::Session session = after_base_yml(std::string(kEpAsTp) + kOnALaptop);
  EXPECT_EQ(session.shape.emb_dim, 256);
  EXPECT_EQ(session.shape.moe.mlp_dim, 512);
  EXPECT_EQ(session.layout.input.shape, (Shape{16, 256}));
}

struct Mode {
  std::string words, sizes, strategy;
};

TEST(Commands, TheFiveModesOfTheExpertPathsRunAsWritten) {
  const std::vector<Mode> modes{
      {"sparse_matmul=True use_ring_of_experts=True ici_expert_parallelism=-1", "expert=8", "ring"},
      {"sparse_matmul=True use_ring_of_experts=False ici_expert_parallelism=-1", "expert=8", "a2a"},
      {"sparse_matmul=True use_ring_of_experts=False ici_expert_parallelism=1 ici_fsdp_parallelism=-1", "fsdp=8",
       "a2a"},
      {"sparse_matmul=False use_ring_of_experts=False ici_expert_parallelism=1 ici_fsdp_parallelism=-1", "fsdp=8",
       "dense"},
      {"sparse_matmul=False use_ring_of_experts=False ici_expert_parallelism=-1 ici_fsdp_parallelism=1", "expert=8",
       "dense"},
  };
  for (const Mode& mode : modes) {
    SCOPED_TRACE(mode.words);
    const session::Session session = after_base_yml(std::string(kFiveModes) + " " + mode.words);
    EXPECT_EQ(sizes_of(session), mode.sizes);
    EXPECT_EQ(strategy_of(session), mode.strategy);
    EXPECT_EQ(has_region(session.graph, "ring"), mode.strategy == "ring");
    // If one device holds all experts, nothing is exchanged.
    const bool travels = mode.sizes == "expert=8";
    EXPECT_EQ(has_region(session.graph, "all-to-all"), mode.strategy == "a2a" && travels);
    EXPECT_EQ(has_region(session.graph, "local"), mode.strategy == "a2a" && !travels);
    EXPECT_EQ(session.shape.layers, 1);
    EXPECT_EQ(session.shape.dense_layers, 0);
    EXPECT_EQ(session.shape.weight_dtype, DType::bfloat16);
    EXPECT_FALSE(session.shape.gathers_kv) << "attention=dot_product stands after attention=flash";
    EXPECT_EQ(session.batch.micro_rows, 8);
    EXPECT_EQ(session.layout.input.shape, (Shape{8, 1024}));
  }
}

TEST(Commands, KeysThatSteerATpuAreNotedOnce) {
  const std::vector<std::string> notices = after_base_yml(kFiveModes).loaded.notices;
  EXPECT_EQ(std::count_if(notices.begin(), notices.end(),
                          [](const std::string& n) { return n.starts_with("without effect here"); }),
            1);
  EXPECT_THAT(notices, Contains(HasSubstr("sa_block_q")));
}

TEST(Commands, EpAsCpTakesAFractionalBatch) {
  const session::Session session = after_base_yml(kEpAsCpHalf);
  EXPECT_EQ(sizes_of(session), "fsdp=2 expert=2");
  EXPECT_EQ(session.mesh.devices(), 4);
  EXPECT_EQ(session.batch.micro_rows, 2);
  EXPECT_EQ(session.batch.rows_to_load, 4);
  EXPECT_EQ(session.loaded.settings.text("context_sharding"), "expert");
  EXPECT_EQ(test::lies(session.layout, session.layout.input), "[fsdp, expert]");
}

TEST(Commands, EpAsCpLaysRowsAsPlainContextParallelismDoes) {
  const session::Session expert = after_base_yml(kEpAsCp);
  const session::Session context = after_base_yml(kContext);
  EXPECT_EQ(sizes_of(expert), "fsdp=2 expert=2");
  EXPECT_EQ(sizes_of(context), "fsdp=2 context=2");
  EXPECT_EQ(expert.layout.input.shape, context.layout.input.shape);
  EXPECT_EQ(test::lies(expert.layout, expert.layout.input), "[fsdp, expert]");
  EXPECT_EQ(test::lies(context.layout, context.layout.input), "[fsdp, context]");
}

TEST(Commands, EpAsCpIsPlannedForHardwareThatIsNotHere) {
  const session::Session session = after_base_yml(kEpAsCpAhead);
  EXPECT_EQ(session.target.name, "tpu7x-256");
  EXPECT_EQ(sizes_of(session), "fsdp=128 expert=2");
}

TEST(Commands, DispatchRunsWithOneAxisLeftOpen) {
  for (const bool peel : {true, false}) {
    const session::Session session =
        after_base_yml(std::string(kDispatch) + (peel ? "true" : "false") + " ici_fsdp_parallelism=1");
    EXPECT_EQ(sizes_of(session), "expert=8");
    EXPECT_EQ(strategy_of(session), peel ? "capacity, peeled" : "capacity");
    EXPECT_EQ(session.batch.micro_rows, 88);
    EXPECT_EQ(activation_lies(session, "decoder/layers/MoeBlock_0/dispatched"),
              peel ? "[expert, -, -, -]" : "[-, expert, -, -]");
  }
}

// An axis size of -1 in the request takes the remaining devices, and the default axis of size -1 gives way to it.
TEST(Commands, DispatchRunsAsWritten) {
  for (const bool peel : {true, false}) {
    const session::Session session = after_base_yml(std::string(kDispatch) + (peel ? "true" : "false"));
    EXPECT_EQ(sizes_of(session), "expert=8");
    EXPECT_EQ(strategy_of(session), peel ? "capacity, peeled" : "capacity");
  }
}

TEST(Commands, ExpertsOnFsdpRunsAsWrittenInAllItsForms) {
  for (const std::string more : {"", " shard_mode=explicit", " opt_type=muon", " shard_mode=explicit opt_type=muon"}) {
    SCOPED_TRACE(more);
    const session::Session session = after_base_yml(kExpertsOnFsdp + more);
    EXPECT_EQ(sizes_of(session), "fsdp=4 expert=2");
    EXPECT_EQ(session.mesh.devices(), 8);
    EXPECT_EQ(session.layout.explicit_mode, more.find("explicit") != std::string::npos);
    const std::size_t parameters = session.layout.parameters.size();
    if (more.find("muon") == std::string::npos) {
      EXPECT_EQ(session.layout.moments.size(), 2 * parameters);
    } else {
      EXPECT_GT(session.layout.moments.size(), parameters);
      EXPECT_LT(session.layout.moments.size(), 2 * parameters);
    }
  }
}

}  // namespace
}  // namespace moesh::cli
