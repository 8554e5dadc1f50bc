// How Megatron-LM's degrees and formats lie in memory and on the devices, one behaviour per test.
#include "foreign/megatron.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session/session.h"
#include "tests/foreign/megatron_commands.h"
#include "tests/support.h"

namespace moesh::foreign {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string refused_layout(const std::string& command, const std::vector<std::string>& own = {}) {
  return test::message_of([&] { imported(command, own); });
}

TEST(FromMegatron, DataParallelismKeepsCopiesOrShards) {
  const auto axes = [](const std::string& flags) {
    const Imported made = imported(kDense + "--world-size 8 " + flags);
    return given(made, "ici_data_parallelism") + " " + given(made, "ici_fsdp_parallelism") + " " + given(made, "shard_optimizer_over_data");
  };
  const std::string copied = "ici_data_parallelism=8 ici_fsdp_parallelism=1 shard_optimizer_over_data is not given";
  const std::string moments = "ici_data_parallelism=8 ici_fsdp_parallelism=1 shard_optimizer_over_data=true";
  const std::string sharded = "ici_data_parallelism is not given ici_fsdp_parallelism=8 shard_optimizer_over_data is not given";
  EXPECT_EQ(axes(""), copied);
  EXPECT_EQ(axes("--use-distributed-optimizer"), moments);
  EXPECT_EQ(axes("--use-torch-fsdp2"), sharded);
  EXPECT_EQ(axes("--use-megatron-fsdp"), sharded);
  EXPECT_EQ(axes("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads"), moments);
  EXPECT_EQ(axes("--use-megatron-fsdp --data-parallel-sharding-strategy optim"), moments);
  EXPECT_EQ(axes("--use-megatron-fsdp --data-parallel-sharding-strategy no_shard"), copied);
  EXPECT_EQ(axes("--use-megatron-fsdp --use-distributed-optimizer --data-parallel-sharding-strategy no_shard"), copied);
  EXPECT_EQ(axes("--use-distributed-optimizer --data-parallel-sharding-strategy no_shard"), moments) << "for Megatron-FSDP alone";
}

// Whatever Megatron-FSDP's strategies have in common in the plan is told where it differs from what they say.
TEST(FromMegatron, NoTwoStrategiesOfShardingGiveTheSameInSilence) {
  std::set<std::string> all;
  for (const std::string strategy : {"no_shard", "optim", "optim_grads", "optim_grads_params"}) {
    const Imported made =
        imported(kDense + "--world-size 8 --use-megatron-fsdp --use-distributed-optimizer --data-parallel-sharding-strategy " + strategy);
    all.insert(join(made.keys, " ") + told(made.notes));
  }
  EXPECT_EQ(all.size(), 4u);
  EXPECT_THAT(notes(kDense + "--use-megatron-fsdp --data-parallel-sharding-strategy optim"),
              HasSubstr("differs: --data-parallel-sharding-strategy optim: gradients are planned as under optim_grads"));
  EXPECT_THAT(notes(kDense + "--data-parallel-sharding-strategy optim"),
              HasSubstr("not needed: --data-parallel-sharding-strategy (without effect beside the other flags)\n"));
}

TEST(FromMegatron, ShardsOfMomentsAreAskedForEvenOfASingleDevice) {
  EXPECT_EQ(given(kDense + "--world-size 1 --use-distributed-optimizer", "shard_optimizer_over_data"), "shard_optimizer_over_data=true");
  EXPECT_EQ(given(kDense + "--world-size 8 --tensor-model-parallel-size 8 --use-distributed-optimizer", "shard_optimizer_over_data"),
            "shard_optimizer_over_data=true");
}

TEST(FromMegatron, SequenceParallelismIsAnAxisOfItsOwnName) {
  EXPECT_EQ(given(kDense + "--tensor-model-parallel-size 2", "ici_tensor_parallelism"), "ici_tensor_parallelism=2");
  EXPECT_EQ(given(kDense + "--tensor-model-parallel-size 2 --sequence-parallel", "ici_tensor_sequence_parallelism"),
            "ici_tensor_sequence_parallelism=2");
}

struct Placed {
  std::string flags, keys;
};

TEST(FromMegatron, ExpertsTakeTheDevicesOfTheContextAndOfData) {
  const Placed all[] = {
      {"--expert-model-parallel-size 8 --world-size 8", "context - expert 8 tensor - fsdp 1"},
      {"--expert-model-parallel-size 4 --world-size 8", "context - expert 4 tensor - fsdp 1"},
      {"--expert-model-parallel-size 4 --context-parallel-size 2 --world-size 8", "context 2 expert 2 tensor - fsdp 1"},
      {"--expert-model-parallel-size 8 --context-parallel-size 8 --world-size 8", "context 8 expert - tensor - fsdp 1"},
      {"--expert-model-parallel-size 2 --context-parallel-size 4 --world-size 8", "context 4 expert 2 tensor - fsdp 1"},
      {"--expert-model-parallel-size 2 --tensor-model-parallel-size 2 --world-size 4", "context - expert 2 tensor 2 fsdp 1"},
      {"--expert-model-parallel-size 4 --tensor-model-parallel-size 2 --expert-tensor-parallel-size 1 --world-size 4",
       "context - expert 2 tensor 2 fsdp 1"},
      {"--expert-model-parallel-size 8 --tensor-model-parallel-size 2 --context-parallel-size 2 --expert-tensor-parallel-size 1 "
       "--world-size 8",
       "context 2 expert 2 tensor 2 fsdp 1"},
      {"--tensor-model-parallel-size 2 --expert-tensor-parallel-size 4 --world-size 4", "context - expert 2 tensor 2 fsdp 1"},
  };
  for (const Placed& one : all) {
    SCOPED_TRACE(one.flags);
    const Imported made = imported(kSparse + "--use-distributed-optimizer --sequence-parallel " + one.flags);
    const auto size = [&](const std::string& axis) {
      const std::string word = given(made, "ici_" + axis + "_parallelism");
      return axis.substr(0, axis.find('_')) + " " + (word.find('=') == std::string::npos ? "-" : word.substr(word.find('=') + 1));
    };
    EXPECT_EQ(size("context") + " " + size("expert") + " " + size("tensor_sequence") + " " + size("fsdp"), one.keys);
    EXPECT_EQ(test::message_of([&] { session::open(made.keys, session::Evenness::reported); }), "no error");
  }
}

TEST(FromMegatron, TellsHowExpertsAreSplitOtherwise) {
  const std::string folded = "--tensor-model-parallel-size 4 --world-size 4 --expert-tensor-parallel-size 1 --expert-model-parallel-size ";
  EXPECT_THAT(notes(kSparse + folded + "2"),
              HasSubstr("differs: experts are not split and the width of each is split 4 ways, as tensor parallelism "
                        "is for all of the model, rather than split 2 ways and not split\n"));
  EXPECT_THAT(notes(kSparse + folded + "4 --moe-expert-capacity-factor 1"),
              HasSubstr("rather than split 4 ways and not split; a device holds as much\n"));
  EXPECT_THAT(notes(kSparse + "--tensor-model-parallel-size 4 --expert-model-parallel-size 2"), Not(HasSubstr("experts are ")));
}

TEST(FromMegatron, ExpertsOfExtendedTensorParallelismAreSplitByWidthThere) {
  const std::string extended =
      kSparse + "--sequence-parallel --tensor-model-parallel-size 2 --expert-model-parallel-size 4 --moe-extended-tp ";
  EXPECT_EQ(given(extended, "ici_expert_parallelism"), "ici_expert_parallelism=4");
  EXPECT_THAT(notes(extended),
              HasSubstr("differs: experts are split 4 ways and the width of each is split 2 ways, as tensor parallelism is for all "
                        "of the model, rather than not split and split 8 ways; a device holds as much\n"));
}

// With --expert-tensor-parallel-size 1 the tensor-parallel devices have whole experts, to which rows travel.
TEST(FromMegatron, TensorParallelDevicesHaveWholeExperts) {
  const std::string whole = "--tensor-model-parallel-size 4 --expert-tensor-parallel-size 1 ";
  const Placed all[] = {
      {whole + "--sequence-parallel --expert-model-parallel-size 4 --world-size 4", "tensor_sequence"},
      {whole + "--sequence-parallel --expert-model-parallel-size 4 --world-size 8 --use-distributed-optimizer", "tensor_sequence"},
      {whole + "--sequence-parallel --expert-model-parallel-size 8 --world-size 8", "expert tensor_sequence"},
      {whole + "--sequence-parallel --expert-model-parallel-size 8 --context-parallel-size 2 --world-size 8", "context tensor_sequence"},
      {whole + "--expert-model-parallel-size 4 --world-size 4", "tensor"},
  };
  for (const Placed& one : all) {
    for (const std::string dispatcher : {"alltoall", "allgather"}) {
      const Imported made = imported(kSparse + one.flags + " --moe-token-dispatcher-type " + dispatcher);
      SCOPED_TRACE(one.flags + " " + dispatcher);
      EXPECT_THAT(told(made.notes), Not(HasSubstr("experts are ")));
      const session::Session opened = session::open(made.keys, session::Evenness::reported);
      const auto axes = [&](const std::string& label) {
        std::string names;
        const auto spec = sharding::resolve_spec({label}, opened.loaded.settings.rules("logical_axis_rules"), opened.mesh);
        for (const auto axis : spec.dims[0])
          if (opened.mesh.axis(axis).ici > 1) names += (names.empty() ? "" : " ") + opened.mesh.axis(axis).name;
        return names;
      };
      EXPECT_EQ(axes("exp"), one.keys);
      EXPECT_EQ(axes("mlp_moe"), "");
      EXPECT_EQ(axes("mlp_no_fsdp"), "");
      EXPECT_EQ(axes("mlp"), one.keys.substr(one.keys.rfind(' ') + 1)) << "dense MLPs are split by width as ever";
    }
  }
}

TEST(FromMegatron, RowsGoToTheirExpertsAsTheDispatcherSays) {
  const std::string split = kSparse + "--expert-model-parallel-size 4 ";
  EXPECT_EQ(given(split, "use_ring_of_experts"), "use_ring_of_experts is not given");
  EXPECT_EQ(given(split, "ragged_buffer_factor"), "ragged_buffer_factor=2");
  EXPECT_EQ(given(imported(split, {"ragged_buffer_factor=-1"}), "ragged_buffer_factor"), "ragged_buffer_factor is not given");
  const std::string gathers = kDense + "--num-experts 8 --expert-model-parallel-size 4";
  EXPECT_EQ(given(gathers, "use_ring_of_experts"), "use_ring_of_experts=true");
  EXPECT_EQ(given(gathers, "use_ragged_sort"), "use_ragged_sort=true");
  EXPECT_EQ(given(split + "--moe-expert-capacity-factor 1.25", "capacity_factor"), "capacity_factor=1.25");
  EXPECT_EQ(given(split + "--moe-expert-capacity-factor 1.25", "sparse_matmul"), "sparse_matmul=false");
  EXPECT_EQ(given(kSparse + "--moe-expert-capacity-factor 1.25", "capacity_factor"), "capacity_factor=1.25");
  EXPECT_EQ(given(kSparse + "--moe-expert-capacity-factor 1.25", "moe_dispatch_no_expert_sharding"),
            "moe_dispatch_no_expert_sharding is not given");
}

TEST(FromMegatron, StagesHaveAsManyLayersEach) {
  const std::string staged = kDense + "--pipeline-model-parallel-size 2 --global-batch-size 8 ";
  EXPECT_EQ(given(staged, "num_layers_per_pipeline_stage"), "num_layers_per_pipeline_stage=2");
  EXPECT_EQ(given(staged + "--num-layers-per-virtual-pipeline-stage 1", "num_layers_per_pipeline_stage"),
            "num_layers_per_pipeline_stage=1");
  EXPECT_EQ(given(staged + "--num-virtual-stages-per-pipeline-rank 2", "num_layers_per_pipeline_stage"), "num_layers_per_pipeline_stage=1");
  EXPECT_THAT(notes(staged + "--num-layers 5 --account-for-loss-in-pipeline-split"),
              HasSubstr("differs: 4 of 5 layers lie in stages, as many in each; the others are outside of them\n"));
  for (const std::string cycle :
       {"", "--num-experts 8 --moe-layer-freq 2 ", "--no-rope-freq 4 ", "--window-size 127,0 --window-attn-skip-freq 3 "}) {
    for (const std::string stages : {"2", "3", "4"}) {
      const std::string command = kDense + "--num-layers 24 --pipeline-model-parallel-size " + stages + " " + cycle;
      EXPECT_EQ(test::message_of([&] { session::open(imported(command).keys, session::Evenness::reported); }), "no error") << command;
    }
  }
}

TEST(FromMegatron, GradientsAndMomentsHaveTheirFormats) {
  const auto gradients = [](const std::string& flags) { return given(kDense + flags, "grad_dtype"); };
  const std::string narrow = "grad_dtype=bfloat16", wide = "grad_dtype is not given";
  EXPECT_EQ(gradients("--use-megatron-fsdp --megatron-fsdp-main-grads-dtype bf16"), narrow);
  EXPECT_EQ(gradients("--use-megatron-fsdp --megatron-fsdp-main-grads-dtype fp32"), wide);
  EXPECT_EQ(gradients("--use-megatron-fsdp"), narrow) << "the format of the parameters";
  EXPECT_EQ(gradients("--megatron-fsdp-main-grads-dtype bf16"), wide) << "for Megatron-FSDP alone";
  EXPECT_EQ(gradients("--use-precision-aware-optimizer --main-grads-dtype bf16"), narrow);
  EXPECT_EQ(gradients("--main-grads-dtype bf16"), wide);
  EXPECT_THAT(notes(kDense + "--use-megatron-fsdp"), HasSubstr("assumed: Megatron-FSDP keeps gradients in the parameters' format"));
  EXPECT_THAT(notes(kDense + "--use-megatron-fsdp", {"grad_dtype=float32"}), Not(HasSubstr("Megatron-FSDP keeps")));
  const std::string aware = kDense + "--use-precision-aware-optimizer ";
  EXPECT_EQ(given(aware + "--exp-avg-dtype bf16", "mu_dtype"), "mu_dtype=bfloat16");
  EXPECT_THAT(notes(aware + "--exp-avg-dtype fp8"), HasSubstr("differs: --exp-avg-dtype fp8: the first moment is planned in bfloat16\n"));
  EXPECT_THAT(notes(aware + "--exp-avg-sq-dtype bf16"),
              HasSubstr("differs: --exp-avg-sq-dtype bf16: the second moment is planned in float32\n"));
  EXPECT_THAT(notes(aware + "--main-params-dtype fp16"),
              HasSubstr("differs: --main-params-dtype fp16: parameters are planned in float32\n"));
  EXPECT_EQ(gradients("--fp16"), narrow);
  EXPECT_EQ(gradients("--fp16 --accumulate-allreduce-grads-in-fp32"), wide);
}

// The bytes per parameter of Megatron-LM are those of its docs/user-guide/features/dist_optimizer.md.
TEST(FromMegatron, TellsTheBytesOfAParameterAsMegatronHoldsIt) {
  const auto bytes = [](const std::string& flags) {
    const std::string all = notes(flags + " --world-size 4"), begin = "differs: data parallelism ";
    const std::size_t at = all.find(begin);
    return at == std::string::npos ? "none" : all.substr(at + begin.size(), all.find('\n', at) - at - begin.size());
  };
  std::string wide = kDense;
  wide.erase(wide.find("--bf16"), 6);
  const auto whole = [](const std::string& here_and_there) {
    return "without a distributed optimizer: parameters have no copy in half precision: " + here_and_there;
  };
  const std::string with = "with --use-distributed-optimizer: ", shards = "--use-distributed-optimizer ";
  EXPECT_EQ(bytes(kDense), whole("16 bytes each on every device with gradient and moments rather than 18"));
  EXPECT_EQ(bytes(wide + "--fp16"), whole("14 bytes each on every device with gradient and moments rather than 20"));
  EXPECT_EQ(bytes(kDense + "--optimizer sgd"), whole("8 bytes each on every device with gradient and moments rather than 14"));
  EXPECT_EQ(bytes(wide), "none");
  EXPECT_EQ(bytes(kDense + shards + "--global-batch-size 16"),
            with + "parameters are float32 copies: 8 bytes each on every device and 8 spread over devices rather than 6 and 12");
  EXPECT_EQ(bytes(wide + shards + "--global-batch-size 16"), "none");
  EXPECT_EQ(bytes(wide + shards), with + "gradients are summed into shards where that is possible");
  EXPECT_EQ(bytes(kDense + shards + "--global-batch-size 16 --use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype fp8"),
            with + "parameters are float32 copies: 8 bytes each on every device and 6 spread over devices rather than 6 and 7");
  EXPECT_EQ(bytes(kDense + "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads"),
            "with shards of moments: parameters are float32 copies: 4 bytes each on every device and 10 spread over devices rather than 2 "
            "and 18");
  EXPECT_EQ(bytes(kDense + "--use-megatron-fsdp --data-parallel-sharding-strategy optim"),
            "with shards of moments: parameters are float32 copies: 4 bytes each on every device and 10 spread over devices rather than 4 "
            "and 16");
  EXPECT_EQ(bytes(kDense + "--use-megatron-fsdp"), "none");
}

TEST(FromMegatron, GradientsAreSummedOnceAStepOrInEachPass) {
  const std::string narrow = "differs: gradients are summed over devices in bfloat16, half the bytes of Megatron-LM's float32\n";
  const std::string four = kDense + "--world-size 4 ", passes = four + "--global-batch-size 16 ";
  EXPECT_EQ(given(four, "reduce_gradients"), "reduce_gradients is not given");
  EXPECT_EQ(given(passes, "reduce_gradients"), "reduce_gradients=once");
  EXPECT_EQ(given(passes + "--use-distributed-optimizer", "reduce_gradients"), "reduce_gradients=once");
  EXPECT_EQ(given(passes + "--use-megatron-fsdp", "reduce_gradients"), "reduce_gradients=each_pass");
  EXPECT_THAT(notes(four), HasSubstr(narrow));
  EXPECT_THAT(notes(passes), Not(HasSubstr(narrow))) << "sums of several passes are float32";
  EXPECT_THAT(notes(four + "--grad-reduce-in-bf16"), Not(HasSubstr(narrow)));
  EXPECT_THAT(notes(four + "--use-megatron-fsdp"), Not(HasSubstr(narrow)));
  EXPECT_THAT(notes(kDense + "--world-size 1"), Not(HasSubstr(narrow)));
}

TEST(FromMegatron, TellsOfWeightsThatAreKeptForTheBackwardPass) {
  const std::string flag = "--torch-fsdp2-no-reshard-after-forward", torch = kDense + "--world-size 4 --use-torch-fsdp2 ";
  EXPECT_THAT(notes(torch + flag),
              HasSubstr("differs: " + flag + ": weights are gathered again in the backward pass, where Megatron-LM keeps them from the forward "
                        "pass on: half the gathers, and 2 bytes more for each parameter that a device computes with\n"));
  EXPECT_THAT(notes(torch), Not(HasSubstr("gathered again")));
  EXPECT_THAT(notes(kDense + flag), HasSubstr("not needed: " + flag + " (without effect beside the other flags)\n"));
}

TEST(FromMegatron, TellsOfTheMomentumOfSgd) {
  EXPECT_EQ(given(kDense + "--optimizer sgd", "opt_type"), "opt_type=sgd");
  EXPECT_THAT(notes(kDense + "--optimizer sgd"),
              HasSubstr("differs: --optimizer sgd: no momentum is planned, where Megatron-LM has one of 0.9: 4 bytes of a parameter\n"));
  EXPECT_THAT(notes(kDense + "--optimizer sgd --sgd-momentum 0"), Not(HasSubstr("momentum")));
  EXPECT_THAT(notes(kDense + "--sgd-momentum 0.8"), HasSubstr("not needed: --sgd-momentum (without effect beside the other flags)\n"));
}

TEST(FromMegatron, TheLossHoldsLogitsAsItsKernelDoes) {
  const auto bytes = [](const std::string& command) { return imported(command).engine.bytes_of_logit; };
  std::string wide = kDense;
  wide.erase(wide.find("--bf16"), 6);
  EXPECT_EQ(imported(kDense).engine.program, "Megatron-LM");
  EXPECT_EQ(bytes(kDense), 6);
  EXPECT_EQ(bytes(kDense + "--cross-entropy-loss-fusion --cross-entropy-fusion-impl native"), 6);
  EXPECT_EQ(bytes(kDense + "--cross-entropy-loss-fusion --cross-entropy-fusion-impl te"), 2);
  EXPECT_EQ(bytes(kDense + "--cross-entropy-fusion-impl te"), 6) << "without fusion";
  EXPECT_EQ(bytes(wide), 4);
}

TEST(FromMegatron, MomentsOfTheHostAreThere) {
  const auto offloads = [](const std::string& flags) { return given(kDense + flags, "optimizer_memory_host_offload"); };
  EXPECT_EQ(offloads("--optimizer-cpu-offload --use-precision-aware-optimizer"), "optimizer_memory_host_offload=true");
  EXPECT_EQ(offloads("--optimizer-cpu-offload --optimizer-offload-fraction 0"), "optimizer_memory_host_offload is not given");
  EXPECT_EQ(offloads("--optimizer-offload-fraction 1"), "optimizer_memory_host_offload is not given");
  EXPECT_THAT(notes(kDense + "--optimizer-cpu-offload --optimizer-offload-fraction 0.5"),
              HasSubstr("differs: --optimizer-offload-fraction 0.5: all moments are planned in the host's memory\n"));
}

TEST(FromMegatron, TellsWhatMegatronRefusesThoughItCanBePlanned) {
  const std::string experts = "differs: Megatron-LM refuses to train experts with tensor parallelism and without --sequence-parallel\n";
  const std::string split = "--tensor-model-parallel-size 4 ";
  EXPECT_THAT(notes(kSparse + split), HasSubstr(experts));
  EXPECT_THAT(notes(kSparse + split + "--sequence-parallel"), Not(HasSubstr("refuses")));
  EXPECT_THAT(notes(kDense + split), Not(HasSubstr("refuses")));
  EXPECT_THAT(
      notes(kDense + "--context-parallel-size 4 --seq-length 36"),
      HasSubstr("differs: Megatron-LM refuses --seq-length 36: a multiple of 8, twice the context parallelism, is expected there\n"));
  EXPECT_THAT(
      notes(kDense + split + "--sequence-parallel --seq-length 34"),
      HasSubstr("differs: Megatron-LM refuses --seq-length 34: a multiple of 4, tensor x context parallelism under --sequence-parallel, is "
                "expected there\n"));
  EXPECT_THAT(notes(kDense + split + "--seq-length 34"), Not(HasSubstr("refuses")));
}

TEST(FromMegatron, DevicesAreThoseOfTheTarget) {
  EXPECT_THAT(notes(kDense + "--world-size 8", {"compile_topology=h100-16"}),
              HasSubstr("assumed: compile_topology has 16 devices, the command 8: that of compile_topology is taken\n"));
  EXPECT_EQ(given(imported(kDense, {"compile_topology=h100-16"}), "ici_data_parallelism"), "ici_data_parallelism=16");
  EXPECT_THAT(notes(kDense + "--tensor-model-parallel-size 2"),
              HasSubstr("assumed: nothing says how many devices there are: 2, the fewest that the degrees take\n"));
  const Imported slices = imported(kDense, {"compile_topology=v5p-16", "compile_topology_num_slices=2"});
  EXPECT_EQ(given(slices, "dcn_data_parallelism") + " " + given(slices, "ici_data_parallelism"),
            "dcn_data_parallelism=2 ici_data_parallelism=8");
}

TEST(FromMegatron, RefusesDegreesThatDoNotMultiply) {
  EXPECT_EQ(refused_layout(kDense + "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --world-size 48"),
            "--from megatron: 48 devices for tensor 8 x context 1 x pipeline 4: a multiple of 32 was expected\n  fix: 32 devices, or other "
            "degrees");
  EXPECT_EQ(refused_layout(kDense + "--tensor-model-parallel-size 3", {"compile_topology=h100-8"}),
            "--from megatron: 8 devices for tensor 3 x context 1 x pipeline 1: a multiple of 3 was expected\n"
            "  fix: compile_topology= with 6 devices, or other degrees");
  EXPECT_EQ(refused_layout(kDense + "--tensor-model-parallel-size 4000 --context-parallel-size 4000"),
            "--from megatron: degrees of parallelism that take more than 1,000,000 devices\n  fix: give smaller ones");
}

TEST(FromMegatron, RefusesExpertsThatDoNotDivide) {
  EXPECT_EQ(refused_layout(kSparse + "--expert-model-parallel-size 3 --world-size 24"),
            "--from megatron: 8 experts, which 3 ways to split them do not divide\n  fix: 2 ways to split experts, or other degrees");
  EXPECT_EQ(refused_layout(kSparse + "--expert-model-parallel-size 8 --tensor-model-parallel-size 2 --world-size 8"),
            "--from megatron: expert 8 x tensor 2 in experts do not divide data 4 x context 1 x tensor 2\n"
            "  fix: 4 ways to split experts, or other degrees");
  EXPECT_THAT(refused_layout(kSparse + "--expert-model-parallel-size 2 --world-size 1"),
              HasSubstr("fix: experts that are not split, or other degrees"));
  EXPECT_EQ(refused_layout(kSparse + "--expert-tensor-parallel-size 3 --world-size 8"),
            "--from megatron: expert 1 x tensor 3 in experts do not divide data 8 x context 1 x tensor 1\n"
            "  fix: tensor 2 in experts, or other degrees");
  EXPECT_EQ(refused_layout(kSparse + "--expert-model-parallel-size 4 --context-parallel-size 8 --world-size 16"),
            "--from megatron: experts that take a part of context 8 beside data 2: an axis holds experts as a whole or not at all\n"
            "  fix: a context of 4, or other degrees");
  EXPECT_EQ(
      refused_layout(kDense + "--expert-model-parallel-size 4"),
      "--from megatron: --expert-model-parallel-size: '4', 1, or --num-experts beside it was expected\n  fix: correct it, or leave it out");
}

TEST(FromMegatron, OffersOnlySizesThatTheHardwareComesIn) {
  const auto fix = [](const std::string& flags, const std::string& topology) {
    const std::string message = refused_layout(kDense + flags, {"compile_topology=" + topology});
    return message.substr(message.find("fix: "));
  };
  EXPECT_EQ(fix("--tensor-model-parallel-size 3", "h100-64"), "fix: compile_topology= with 72 devices, or other degrees");
  EXPECT_EQ(fix("--tensor-model-parallel-size 16", "h100-8"), "fix: compile_topology= with 16 devices, or other degrees");
  EXPECT_EQ(fix("--tensor-model-parallel-size 3", "cpu-8"), "fix: compile_topology= with 9 devices, or other degrees");
  EXPECT_EQ(fix("--tensor-model-parallel-size 7", "v6e-8"), "fix: other degrees") << "such slices have powers of two";
  EXPECT_EQ(fix("--tensor-model-parallel-size 100000", "h100-8"), "fix: other degrees") << "65,536 at most";
}

TEST(FromMegatron, VirtualStagesDivideTheLayersOfAStage) {
  const std::string stages = kDense + "--num-layers 32 --pipeline-model-parallel-size 8 --num-virtual-stages-per-pipeline-rank ";
  EXPECT_EQ(given(stages + "2", "num_layers_per_pipeline_stage"), "num_layers_per_pipeline_stage=2");
  EXPECT_EQ(given(stages + "4", "num_layers_per_pipeline_stage"), "num_layers_per_pipeline_stage=1");
  for (const std::string chunks : {"3", "8", "1000000000"}) {
    EXPECT_EQ(refused_layout(stages + chunks),
              "--from megatron: --num-virtual-stages-per-pipeline-rank: '" + chunks +
                  "', a divisor of the 4 layers of a stage was expected\n  fix: correct it, or leave it out");
  }
}

}  // namespace
}  // namespace moesh::foreign
