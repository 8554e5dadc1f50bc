// What each flag of Megatron-LM translates to, one behaviour per test; whole commands are in tests/golden/foreign/.
#include "foreign/megatron.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "foreign/import.h"
#include "tests/foreign/given.h"
#include "tests/paths.h"
#include "tests/support.h"

namespace moesh::foreign {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kDense = "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2 --bf16 --swiglu "
                           "--normalization RMSNorm --position-embedding-type rope --disable-bias-linear --attention-dropout 0 "
                           "--hidden-dropout 0 --untie-embeddings-and-output-weights --vocab-size 256 ";
const std::string kSparse = kDense + "--num-experts 8 --moe-token-dispatcher-type alltoall ";

Imported imported(const std::string& command, const std::vector<std::string>& own = {}) { return from_program("megatron", command, own); }

std::string given(const std::string& command, const std::string& key) { return given(imported(command), key); }

std::string notes(const std::string& command, const std::vector<std::string>& own = {}) { return told(imported(command, own).notes); }

std::string refusal(const std::string& command, const std::vector<std::string>& own = {}) {
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
  EXPECT_EQ(axes("--use-megatron-fsdp --data-parallel-sharding-strategy no_shard"), copied);
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
      {"--expert-model-parallel-size 8 --tensor-model-parallel-size 2 --context-parallel-size 2 --expert-tensor-parallel-size 1 --world-size 8",
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
  EXPECT_EQ(given(kSparse + "--moe-expert-capacity-factor 1.25", "moe_dispatch_no_expert_sharding"), "moe_dispatch_no_expert_sharding is not given");
}

TEST(FromMegatron, TheBatchIsThatOfADevice) {
  const auto batch = [](const std::string& flags) {
    const Imported made = imported(kDense + flags);
    return given(made, "per_device_batch_size") + " " + given(made, "gradient_accumulation_steps") + " " + given(made, "num_pipeline_microbatches");
  };
  const std::string no_stages = " num_pipeline_microbatches is not given";
  EXPECT_EQ(batch("--world-size 4 --global-batch-size 24"), "per_device_batch_size=2 gradient_accumulation_steps=3" + no_stages);
  EXPECT_EQ(batch("--world-size 4"), "per_device_batch_size=2 gradient_accumulation_steps is not given" + no_stages);
  EXPECT_EQ(batch("--world-size 4 --tensor-model-parallel-size 4 --global-batch-size 2"),
            "per_device_batch_size=0.5 gradient_accumulation_steps is not given" + no_stages);
  EXPECT_EQ(batch("--world-size 4 --pipeline-model-parallel-size 2 --global-batch-size 16"),
            "per_device_batch_size=4 gradient_accumulation_steps is not given num_pipeline_microbatches=4");
  EXPECT_EQ(batch("--world-size 4 --pipeline-model-parallel-size 2"),
            "per_device_batch_size=2 gradient_accumulation_steps is not given num_pipeline_microbatches=2");
  EXPECT_THAT(notes(kDense + "--pipeline-model-parallel-size 2 --global-batch-size 6"),
              HasSubstr("differs: 4 microbatches are planned, a multiple of the stages, rather than 3\n"));
  EXPECT_THAT(notes(kDense + "--pipeline-model-parallel-size 2"), HasSubstr("assumed: no --global-batch-size: as many microbatches as stages\n"));
}

TEST(FromMegatron, StagesHaveAsManyLayersEach) {
  const std::string staged = kDense + "--pipeline-model-parallel-size 2 --global-batch-size 8 ";
  EXPECT_EQ(given(staged, "num_layers_per_pipeline_stage"), "num_layers_per_pipeline_stage=2");
  EXPECT_EQ(given(staged + "--num-layers-per-virtual-pipeline-stage 1", "num_layers_per_pipeline_stage"), "num_layers_per_pipeline_stage=1");
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

TEST(FromMegatron, RecomputesWhatItsFlagsSay) {
  const auto policy = [](const std::string& flags) { return given(kSparse + flags, "remat_policy").substr(13); };
  EXPECT_EQ(policy(""), "minimal_with_context");
  EXPECT_EQ(policy("--recompute-activations"), "minimal_with_context");
  EXPECT_EQ(policy("--recompute-granularity selective --recompute-modules core_attn"), "minimal_with_context");
  EXPECT_EQ(policy("--recompute-granularity selective --recompute-modules core_attn moe"), "save_dot_with_context_except_mlp");
  EXPECT_EQ(policy("--moe-layer-recompute"), "save_dot_with_context_except_mlp");
  EXPECT_EQ(policy("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"), "full");
  EXPECT_THAT(notes(kDense + "--recompute-granularity full --recompute-method block --recompute-num-layers 2"),
              HasSubstr("differs: --recompute-method block: every layer is recomputed, not the first ones of a stage\n"));
  EXPECT_THAT(notes(kDense + "--recompute-granularity full --recompute-num-layers 2"),
              HasSubstr("differs: --recompute-num-layers 2: every layer's input is kept, not every 2th\n"));
}

TEST(FromMegatron, NumbersHaveTheirFormats) {
  std::string wide = kDense;
  wide.erase(wide.find("--bf16"), 6);
  EXPECT_EQ(given(kDense, "dtype"), "dtype is not given");
  EXPECT_EQ(given(wide, "dtype"), "dtype=float32");
  EXPECT_EQ(given(kDense + "--grad-reduce-in-bf16", "grad_dtype"), "grad_dtype=bfloat16");
  EXPECT_EQ(given(kDense + "--fp8-format hybrid", "quantization"), "quantization=te_fp8_delayedscaling");
  EXPECT_EQ(given(kDense + "--fp8-format e4m3 --fp8-recipe mxfp8", "quantization"), "quantization=te_mxfp8");
  EXPECT_EQ(given(kDense + "--fp8-format hybrid --fp8-recipe tensorwise", "quantization"), "quantization=te_fp8_currentscaling");
  EXPECT_THAT(notes(wide + "--fp16"), HasSubstr("differs: --fp16: bfloat16 is planned"));
}

TEST(FromMegatron, TheScheduleIsInShares) {
  const std::string steps = kDense + "--lr 1e-3 --min-lr 1e-4 --train-iters 1000 --lr-warmup-iters 100 ";
  const auto keys = [](const std::string& command) {
    const Imported made = imported(command);
    std::string all;
    for (const char* key : {"steps", "warmup_steps_fraction", "learning_rate_final_fraction", "lr_schedule_type", "wsd_decay_steps_fraction"})
      all += given(made, key) + "\n";
    return all;
  };
  EXPECT_EQ(keys(steps + "--lr-decay-style cosine"), "steps=1000\nwarmup_steps_fraction=0.1\nlearning_rate_final_fraction=0.1\n"
                                                      "lr_schedule_type is not given\nwsd_decay_steps_fraction is not given\n");
  EXPECT_EQ(keys(steps + "--lr-decay-style linear"), "steps=1000\nwarmup_steps_fraction=0.1\nlearning_rate_final_fraction=0.1\n"
                                                      "lr_schedule_type=wsd\nwsd_decay_steps_fraction=0.9\n");
  EXPECT_EQ(keys(steps + "--lr-decay-style WSD --lr-wsd-decay-iters 200"), "steps=1000\nwarmup_steps_fraction=0.1\nlearning_rate_final_fraction=0.1\n"
                                                                            "lr_schedule_type=wsd\nwsd_decay_steps_fraction=0.2\n");
  EXPECT_EQ(keys(steps + "--lr-decay-style constant"), "steps=1000\nwarmup_steps_fraction=0.1\nlearning_rate_final_fraction=1\n"
                                                        "lr_schedule_type=wsd\nwsd_decay_steps_fraction=0.9\n");
  EXPECT_EQ(given(kDense + "--lr 1 --train-samples 800 --global-batch-size 8", "steps"), "steps=100");
}

TEST(FromMegatron, TheVocabularyIsPadded) {
  EXPECT_EQ(given(kDense + "--vocab-size 300", "vocab_size"), "vocab_size=384");
  EXPECT_EQ(given(kDense + "--vocab-size 300 --tensor-model-parallel-size 4", "vocab_size"), "vocab_size=512");
  EXPECT_EQ(given(kDense + "--vocab-size 300 --make-vocab-size-divisible-by 100", "vocab_size"), "vocab_size=300");
  EXPECT_EQ(given(kDense + "--vocab-size 300 --padded-vocab-size 333", "vocab_size"), "vocab_size=333");
}

TEST(FromMegatron, LayersThatDifferGoRoundInACycle) {
  const auto keys = [](const std::string& flags, const std::string& key) { return given(kSparse + flags, key); };
  EXPECT_EQ(keys("--moe-layer-freq 2", "layer_mlp"), "layer_mlp=[moe,dense]");
  EXPECT_EQ(keys("--moe-layer-freq [0,1]*2", "layer_mlp"), "layer_mlp=[dense,moe]");
  EXPECT_EQ(keys("--moe-layer-freq ([0]*1+[1]*3)", "first_num_dense_layers"), "first_num_dense_layers=1");
  EXPECT_EQ(keys("--window-size 127,0 --window-attn-skip-freq 2", "layer_attention"), "layer_attention=[sliding,full]");
  EXPECT_EQ(keys("--window-size (127,0)", "sliding_window_size"), "sliding_window_size=128");
  EXPECT_EQ(keys("--no-rope-freq 4", "layer_positions"), "layer_positions=[rotary,rotary,rotary,none]");
  EXPECT_EQ(keys("--moe-layer-freq [0]*4", "num_experts"), "num_experts is not given");
}

TEST(FromMegatron, AModelOfTheUsersOwnTakesThePlaceOfItsSizes) {
  const Imported made = imported(kSparse + "--expert-model-parallel-size 4 --multi-latent-attention", {"model_name=mixtral-8x7b"});
  EXPECT_EQ(given(made, "base_emb_dim"), "base_emb_dim is not given");
  EXPECT_EQ(given(made, "decoder_block"), "decoder_block is not given");
  EXPECT_EQ(given(made, "ici_expert_parallelism"), "ici_expert_parallelism=4");
  EXPECT_THAT(told(made.notes), HasSubstr("assumed: model_name is yours: what the flags say of the model's sizes is left out\n"));
  EXPECT_THAT(told(made.notes), Not(HasSubstr("unknown")));
}

TEST(FromMegatron, DevicesAreThoseOfTheTarget) {
  EXPECT_THAT(notes(kDense + "--world-size 8", {"compile_topology=h100-16"}),
              HasSubstr("assumed: compile_topology has 16 devices, the command 8: that of compile_topology is taken\n"));
  EXPECT_EQ(given(imported(kDense, {"compile_topology=h100-16"}), "ici_data_parallelism"), "ici_data_parallelism=16");
  EXPECT_THAT(notes(kDense + "--tensor-model-parallel-size 2"),
              HasSubstr("assumed: nothing says how many devices there are: 2, the fewest that the degrees take\n"));
  const Imported slices = imported(kDense, {"compile_topology=v5p-16", "compile_topology_num_slices=2"});
  EXPECT_EQ(given(slices, "dcn_data_parallelism") + " " + given(slices, "ici_data_parallelism"), "dcn_data_parallelism=2 ici_data_parallelism=8");
}

TEST(FromMegatron, NamesFlagsThatItDoesNotHaveWithTheNearest) {
  EXPECT_THAT(notes(kDense + "--tensor-model-paralel-size 8"),
              HasSubstr("unknown: --tensor-model-paralel-size is no flag of Megatron-LM, and says nothing here; the nearest is --tensor-model-parallel-size\n"));
  EXPECT_THAT(notes(kDense + "--qwertyuiop"), HasSubstr("unknown: --qwertyuiop is no flag of Megatron-LM, and says nothing here\n"));
  EXPECT_THAT(notes(kDense + "--tensor_model_parallel_size 1"), Not(HasSubstr("unknown")));
  std::string many = kDense;
  for (int i = 0; i < 25; ++i) many += "--qwertyuiop" + std::to_string(i) + " ";
  EXPECT_THAT(notes(many), HasSubstr("unknown: 5 flags more that Megatron-LM does not have\n"));
}

TEST(FromMegatron, NamesFlagsWithoutACounterpart) {
  EXPECT_THAT(notes(kDense + "--mtp-num-layers 1"), HasSubstr("differs: --mtp-num-layers: further tokens are not predicted"));
  EXPECT_THAT(notes(kDense + "--log-interval 1 --save x --ckpt-format torch_dist"),
              HasSubstr("not needed: --log-interval, --save, --ckpt-format (logging, profiling, evaluation, checkpoints and restarts)\n"));
  EXPECT_THAT(notes(kDense + "--q-lora-rank 8"), HasSubstr("not needed: --q-lora-rank (without effect beside the other flags)\n"));
}

TEST(FromMegatron, TellsOfEveryFlagThatIsThere) {
  for (const KnownFlags& flags : idle_megatron_flags()) {
    for (std::string name : split(flags.names, ' ')) {
      if (name.ends_with('*')) name.back() = 'x';
      EXPECT_THAT(notes(kSparse + "--" + name), HasSubstr("not needed: --" + name + " (" + std::string(flags.topic))) << name;
    }
  }
  for (const DifferingFlag& flag : differing_megatron_flags())
    EXPECT_THAT(notes(kSparse + "--" + std::string(flag.name)), HasSubstr(std::string(flag.why))) << flag.name;
}

// Extracts from the sources the names that they ask for; these must be the listed ones.
TEST(FromMegatron, KnowsTheNamesOfTheFlagsThatItTranslates) {
  std::set<std::string> asked;
  for (const char* name : {"megatron.cc", "megatron_model.cc"}) {
    const std::string source = test::read_text(test::source_folder() / "src/foreign" / name);
    const std::regex call("(?:flags_\\.(?:find|has|is_set|text|integer|real|boolean|choice)|needed|words_of|steps_of|size)\\((?:flags_, )?\"([a-z0-9-]+)\""
                          "(?:, \"([a-z]+-[a-z-]+)\"\\))?");
    for (std::sregex_iterator at(source.begin(), source.end(), call), end; at != end; ++at) {
      asked.insert((*at)[1]);
      if ((*at)[2].matched) asked.insert((*at)[2]);
    }
  }
  std::set<std::string> listed;
  for (const std::string_view name : translated_megatron_flags()) listed.emplace(name);
  EXPECT_EQ(listed.size(), translated_megatron_flags().size());
  EXPECT_EQ(asked, listed);
}

TEST(FromMegatron, RefusesDegreesThatDoNotMultiply) {
  EXPECT_EQ(refusal(kDense + "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --world-size 48"),
            "--from megatron: 48 devices for tensor 8 x context 1 x pipeline 4: a multiple of 32 was expected\n  fix: 32 devices, or other degrees");
  EXPECT_EQ(refusal(kDense + "--tensor-model-parallel-size 3", {"compile_topology=h100-8"}),
            "--from megatron: 8 devices for tensor 3 x context 1 x pipeline 1: a multiple of 3 was expected\n"
            "  fix: compile_topology= with 24 devices, or other degrees");
  EXPECT_EQ(refusal(kDense + "--tensor-model-parallel-size 4000 --context-parallel-size 4000"),
            "--from megatron: degrees of parallelism that take more than 1,000,000 devices\n  fix: give smaller ones");
}

TEST(FromMegatron, RefusesExpertsThatDoNotDivide) {
  EXPECT_EQ(refusal(kSparse + "--expert-model-parallel-size 3 --world-size 24"),
            "--from megatron: 8 experts, which 3 ways to split them do not divide\n  fix: 2 ways to split experts, or other degrees");
  EXPECT_EQ(refusal(kSparse + "--expert-model-parallel-size 8 --tensor-model-parallel-size 2 --world-size 8"),
            "--from megatron: expert 8 x tensor 2 in experts do not divide data 4 x context 1 x tensor 2\n"
            "  fix: 4 ways to split experts, or other degrees");
  EXPECT_THAT(refusal(kSparse + "--expert-model-parallel-size 2 --world-size 1"),
              HasSubstr("fix: experts that are not split, or other degrees"));
  EXPECT_EQ(refusal(kSparse + "--expert-tensor-parallel-size 3 --world-size 8"),
            "--from megatron: expert 1 x tensor 3 in experts do not divide data 8 x context 1 x tensor 1\n"
            "  fix: tensor 2 in experts, or other degrees");
  EXPECT_EQ(refusal(kSparse + "--expert-model-parallel-size 4 --context-parallel-size 8 --world-size 16"),
            "--from megatron: experts that take a part of context 8 beside data 2: an axis holds experts as a whole or not at all\n"
            "  fix: a context of 4, or other degrees");
  EXPECT_EQ(refusal(kDense + "--expert-model-parallel-size 4"),
            "--from megatron: --expert-model-parallel-size: '4', 1, or --num-experts beside it was expected\n  fix: correct it, or leave it out");
}

TEST(FromMegatron, RefusesBatchesAndStagesThatDoNotFit) {
  EXPECT_EQ(refusal(kDense + "--world-size 8 --global-batch-size 24"),
            "--from megatron: a batch of 24, a multiple of 16 was expected: 2 for each of 8 devices along data parallelism\n"
            "  fix: a batch of 32, or other degrees");
  EXPECT_EQ(refusal(kDense + "--pipeline-model-parallel-size 3"),
            "--from megatron: 4 layers for 3 stages, which do not divide them\n"
            "  fix: another --pipeline-model-parallel-size, or --pipeline-model-parallel-layout beside it");
  EXPECT_EQ(refusal(kDense + "--pipeline-model-parallel-size 8 --pipeline-model-parallel-layout x"),
            "--from megatron: 4 layers for 8 stages of 1 layer at a time\n  fix: fewer stages, or more layers");
}

TEST(FromMegatron, OffersOnlySizesThatTheHardwareComesIn) {
  const auto fix = [](const std::string& flags, const std::string& topology) {
    const std::string message = refusal(kDense + flags, {"compile_topology=" + topology});
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
    EXPECT_EQ(refusal(stages + chunks), "--from megatron: --num-virtual-stages-per-pipeline-rank: '" + chunks +
                                            "', a divisor of the 4 layers of a stage was expected\n  fix: correct it, or leave it out");
  }
}

TEST(FromMegatron, RefusesModelsThatNoFamilyHas) {
  EXPECT_EQ(refusal("--hidden-size 64"), "--from megatron: no --num-layers, which a model's size needs\n"
                                         "  fix: give all flags of the model, or model_name= for one of `moesh help models`");
  EXPECT_EQ(refusal(kDense + "--multi-latent-attention"),
            "--from megatron: --multi-latent-attention without experts: no family has such layers\n"
            "  fix: model_name= for one of `moesh help models`, and the other flags as they are");
  std::string plain = kSparse;
  plain.erase(plain.find("--swiglu"), 8);
  EXPECT_EQ(refusal(plain + "--moe-ffn-hidden-size 96"), "--from megatron: experts without a gate, which no family has\n"
                                                         "  fix: --swiglu --moe-ffn-hidden-size 64, with about as many parameters");
}

TEST(FromMegatron, RefusesValuesWithWhatWasExpected) {
  EXPECT_EQ(refusal(kSparse + "--moe-layer-freq [0]*3"),
            "--from megatron: --moe-layer-freq: '[0]*3', a number, or a pattern such as [0]*3+[1]*1 of 4 layers was expected\n"
            "  fix: correct it, or leave it out");
  EXPECT_EQ(refusal(kDense + "--window-size wide"),
            "--from megatron: --window-size: 'wide', two numbers, such as 127,0 was expected\n  fix: correct it, or leave it out");
  EXPECT_EQ(refusal(kDense + "--num-layers 100001"),
            "--from megatron: --num-layers: '100001', at most 100,000 was expected\n  fix: correct it, or leave it out");
  EXPECT_EQ(refusal(kDense + "--hidden-size 65"),
            "--from megatron: --hidden-size: '65', a multiple of 4 heads, or --kv-channels was expected\n  fix: correct it, or leave it out");
  EXPECT_EQ(refusal(kDense + "--tensor-model-parallel-size $TP"),
            "--from megatron: --tensor-model-parallel-size: '$TP', a whole number from 1 was expected\n  fix: write the value of the shell's variable");
  EXPECT_EQ(refusal(kSparse + "--moe-aux-loss-coeff -1"),
            "--from megatron: --moe-aux-loss-coeff: '-1', a number from 0 was expected\n  fix: correct it, or leave it out");
}

}  // namespace
}  // namespace moesh::foreign
