// What each setting of torchtitan translates to, one behaviour per test; whole jobs are in tests/golden/foreign/.
#include "foreign/torchtitan.h"

#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"
#include "foreign/import.h"
#include "session/session.h"
#include "tests/foreign/given.h"
#include "tests/paths.h"
#include "tests/support.h"

namespace moesh::foreign {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kLlama = "--model.name llama3 --model.flavor 8B ";
const std::string kQwen = "--model.name qwen3 --model.flavor 30B-A3B ";

Imported imported_job(const std::string& job, const std::vector<std::string>& own = {}) { return from_program("torchtitan", job, own); }

std::string job_given(const std::string& job, const std::string& key) { return given(imported_job(job), key); }
std::string job_notes(const std::string& job) { return told(imported_job(job).notes); }
std::string job_refusal(const std::string& job, const std::vector<std::string>& own = {}) {
  return test::message_of([&] { imported_job(job, own); });
}

TEST(FromTorchtitan, ShardsWhatIsLeftOfTheDevices) {
  const auto axes = [](const std::string& flags) {
    const Imported made = imported_job(kLlama + "--world-size 16 " + flags);
    return given(made, "ici_data_parallelism") + " " + given(made, "ici_fsdp_parallelism");
  };
  EXPECT_EQ(axes(""), "ici_data_parallelism is not given ici_fsdp_parallelism=16");
  EXPECT_EQ(axes("--parallelism.tensor_parallel_degree 4"), "ici_data_parallelism is not given ici_fsdp_parallelism=4");
  EXPECT_EQ(axes("--parallelism.data_parallel_replicate_degree 4"), "ici_data_parallelism=4 ici_fsdp_parallelism=4");
  EXPECT_EQ(axes("--parallelism.data_parallel_replicate_degree 2 --parallelism.data_parallel_shard_degree 8"), "ici_data_parallelism=2 ici_fsdp_parallelism=8");
  EXPECT_EQ(axes("--parallelism.data_parallel_shard_degree -1 --parallelism.context_parallel_degree 2"), "ici_data_parallelism is not given ici_fsdp_parallelism=8");
}

TEST(FromTorchtitan, ExpertsAreSplitByTensorParallelismWhereNothingElseSplitsThem) {
  EXPECT_THAT(job_notes(kQwen + "--parallelism.tensor_parallel_degree 4 --world-size 8"), Not(HasSubstr("experts are ")));
  EXPECT_EQ(job_given(kLlama + "--parallelism.expert_parallel_degree 8 --world-size 8", "ici_fsdp_parallelism"), "ici_fsdp_parallelism=8");
}

TEST(FromTorchtitan, SettingsOfFlagsFollowThoseOfTheFileAndOfTheConfiguration) {
  const test::TemporaryFolder folder;
  const std::string file = folder.write("job.toml", "[training]\nseq_len = 4096\nsteps = 7\n");
  const std::string config = "--config llama3_8b ";
  EXPECT_EQ(job_given(config, "max_target_length"), "max_target_length=8192");
  EXPECT_EQ(job_given(config + "--training.max_context_length 1024", "max_target_length"), "max_target_length=1024");
  EXPECT_EQ(job_given(config + "--job.config_file " + file, "steps"), "steps=7");
  EXPECT_EQ(job_given(config + "--job.config_file=" + file + " --training.steps=9", "steps"), "steps=9");
  EXPECT_EQ(job_given("CONFIG_FILE=" + file + " ./run_train.sh " + kLlama, "max_target_length"), "max_target_length=4096");
}

// Llama 4's layers differ within cycles of four, which moesh's stages have as wholes.
TEST(FromTorchtitan, StagesOfEveryFlavorHoldWholeCyclesOfItsLayers) {
  const std::string maverick = "--model.name llama4 --model.flavor 17bx128e --parallelism.pipeline_parallel_degree ";
  EXPECT_EQ(job_given(maverick + "4", "num_layers_per_pipeline_stage"), "num_layers_per_pipeline_stage=3");
  EXPECT_EQ(job_given(maverick + "8", "pipeline_parallel_layers"), "pipeline_parallel_layers=8");
  EXPECT_THAT(job_notes(maverick + "8"),
              HasSubstr("differs: 32 of 48 layers lie in stages, as many in each; the others are outside of them\n"));
  EXPECT_EQ(job_refusal(maverick + "16"),
            "--from torchtitan: 12 cycles of 4 layers for 16 stages of 1 cycle of 4 layers at a time\n  fix: fewer stages, or more layers");
  const std::string chunked = maverick + "2 --parallelism.pipeline_parallel_layers_per_stage ";
  EXPECT_EQ(job_given(chunked + "8", "num_layers_per_pipeline_stage"), "num_layers_per_pipeline_stage=2");
  EXPECT_THAT(job_notes(chunked + "6"),
              HasSubstr("differs: a stage runs 4 layers at a time rather than 6: whole cycles of the layers that differ\n"));
  for (const std::string model : {"llama3 8B", "llama3 405B", "llama4 17bx16e", "llama4 17bx128e", "deepseek_v3 16B", "deepseek_v3 671B",
                                  "qwen3 30B-A3B", "gpt_oss 20b", "gpt_oss 120b"}) {
    for (const int stages : {2, 3, 4, 6, 8}) {
      const std::string job = "--model.name " + model.substr(0, model.find(' ')) + " --model.flavor " + model.substr(model.find(' ') + 1) +
                              " --training.seq_len 128 --parallelism.pipeline_parallel_degree " + std::to_string(stages);
      EXPECT_EQ(test::message_of([&] { session::open(imported_job(job).keys, session::Evenness::reported); }), "no error") << job;
    }
  }
}

TEST(FromTorchtitan, FlagsAreSpelledAsTyroTakesThem) {
  EXPECT_EQ(job_given(kLlama + "--parallelism.tensor-parallel-degree 2", "ici_tensor_sequence_parallelism"), "ici_tensor_sequence_parallelism=2");
  EXPECT_EQ(job_given(kLlama + "--parallelism.tensor-parallel-degree 2 --parallelism.no-enable-sequence-parallel", "ici_tensor_parallelism"),
            "ici_tensor_parallelism=2");
}

TEST(FromTorchtitan, CheckpointsActivations) {
  const auto policy = [](const std::string& flags) { return job_given(kLlama + flags, "remat_policy"); };
  EXPECT_EQ(policy(""), "remat_policy=save_dot_with_context_except_mlp");
  EXPECT_EQ(policy("--activation_checkpoint.mode full"), "remat_policy=full");
  EXPECT_EQ(policy("--activation_checkpoint.mode none"), "remat_policy=everything");
  EXPECT_EQ(policy("--training.steps 9 activation_checkpoint:none --training.max_norm 1"), "remat_policy=everything");
  EXPECT_THAT(job_notes(kLlama + "activation-checkpoint:memory-budget"), HasSubstr("activation checkpointing memory_budget: "));
  EXPECT_THAT(job_notes(kLlama + "--activation_checkpoint.mode none"),
              HasSubstr("differs: activation checkpointing none: the results of MLPs' activation functions are made again, where torchtitan "
                        "keeps them unless compiled: 2 bytes more for each token, layer and column of an MLP's width\n"));
  EXPECT_THAT(job_notes(kLlama + "--activation_checkpoint.mode none --compile.enable"), Not(HasSubstr("unless compiled")));
  EXPECT_THAT(job_notes(kLlama + "--activation_checkpoint.mode memory_budget"), HasSubstr("where torchtitan keeps what its budget has room for\n"));
  EXPECT_THAT(job_notes(kLlama + "--activation_checkpoint.selective_ac_option 2"),
              HasSubstr("where torchtitan keeps all of some layers (selective_ac_option 2)\n"));
}

TEST(FromTorchtitan, TheBatchIsInRowsOrInTokens) {
  const auto batch = [](const std::string& flags) {
    const Imported made = imported_job(kLlama + "--world-size 8 --training.seq_len 1024 " + flags);
    return given(made, "per_device_batch_size") + " " + given(made, "gradient_accumulation_steps");
  };
  EXPECT_EQ(batch(""), "per_device_batch_size=8 gradient_accumulation_steps is not given");
  EXPECT_EQ(batch("--training.local_batch_size 2 --training.global_batch_size 64"), "per_device_batch_size=2 gradient_accumulation_steps=4");
  EXPECT_EQ(batch("--training.num_tokens_per_microbatch_per_dp_rank 4096"), "per_device_batch_size=4 gradient_accumulation_steps is not given");
  EXPECT_EQ(batch("--training.num_tokens_per_microbatch_per_dp_rank 4096 --training.num_tokens_per_train_step 65536"),
            "per_device_batch_size=4 gradient_accumulation_steps=2");
  EXPECT_EQ(job_given(kLlama + "--world-size 8 --parallelism.pipeline_parallel_degree 2 --training.local_batch_size 8", "num_pipeline_microbatches"),
            "num_pipeline_microbatches=8");
}

// Configurations count tokens, flags of an older torchtitan rows.
TEST(FromTorchtitan, FlagsOverrideAConfigurationThatCountsOtherwise) {
  const auto batch = [](const std::string& flags) {
    const Imported made = imported_job("--config llama3_70b --world-size 16 " + flags);
    return given(made, "max_target_length").substr(18) + " " + given(made, "per_device_batch_size").substr(22) + " " +
           given(made, "gradient_accumulation_steps");
  };
  const std::string once = " gradient_accumulation_steps is not given";
  EXPECT_EQ(batch(""), "8192 1" + once);
  EXPECT_EQ(batch("--training.seq_len 4096"), "4096 1" + once);
  EXPECT_EQ(batch("--training.local_batch_size 2"), "8192 0.25" + once);
  EXPECT_EQ(batch("--training.batch_size 2"), "8192 0.25" + once);
  EXPECT_EQ(batch("--training.global_batch_size 64"), "8192 1 gradient_accumulation_steps=4");
  EXPECT_EQ(batch("--training.seq_len 4096 --training.local_batch_size 2 --training.global_batch_size 64"),
            "4096 0.25 gradient_accumulation_steps=16");
  EXPECT_EQ(batch("--training.max_context_length 4096 --training.local_batch_size 2"), "4096 0.25" + once);
  EXPECT_EQ(batch("--training.max_context_length 4096"), "4096 2" + once) << "as many tokens";
  EXPECT_EQ(job_refusal("--config llama3_8b --training.seq_len 4096 --training.max_context_length 8192"),
            "--from torchtitan: --training.seq_len: '4096', training.max_context_length, which is given too, in its place was expected\n"
            "  fix: correct it, or leave it out");
  EXPECT_THAT(job_refusal(kLlama + "--training.num_tokens_per_train_step 65536 --training.global_batch_size 64"),
              HasSubstr("'64', training.num_tokens_per_train_step, which is given too, in its place was expected"));
}

TEST(FromTorchtitan, TellsOfWeightsThatAreKeptForTheBackwardPass) {
  const std::string flag = "--parallelism.fsdp_reshard_after_forward", eight = kLlama + "--world-size 8 ";
  const std::string kept = ": weights are gathered again in the backward pass, where torchtitan keeps them from the forward pass on: half the "
                           "gathers, and 2 bytes more for each parameter that a device computes with\n";
  EXPECT_THAT(job_notes(eight + flag + " never"), HasSubstr("differs: " + flag + " never" + kept));
  EXPECT_THAT(job_notes(eight + "--training.fsdp_reshard_after_forward never"), HasSubstr("differs: " + flag + " never" + kept));
  EXPECT_THAT(job_notes(eight + "--parallelism.pipeline_parallel_degree 2"), HasSubstr("differs: " + flag + " default" + kept));
  for (const std::string flags : {"", " always", " default"})
    EXPECT_THAT(job_notes(eight + (flags.empty() ? "" : flag) + flags), Not(HasSubstr("gathered again"))) << flags;
  EXPECT_THAT(job_notes(eight + flag + " always --parallelism.pipeline_parallel_degree 2"), Not(HasSubstr("gathered again")));
  EXPECT_THAT(job_notes(eight + flag + " never --parallelism.data_parallel_replicate_degree 8"), Not(HasSubstr("gathered again")));
}

TEST(FromTorchtitan, GradientsAreSummedInEachPass) {
  const std::string narrow = "differs: gradients are summed over devices in bfloat16, half the bytes of torchtitan's float32\n";
  const std::string eight = kLlama + "--world-size 8 ";
  EXPECT_THAT(job_notes(eight), HasSubstr(narrow));
  EXPECT_THAT(job_notes(eight + "--training.mixed_precision_param float32"), Not(HasSubstr(narrow)));
  EXPECT_THAT(job_notes(eight + "--training.mixed_precision_reduce bfloat16"), Not(HasSubstr(narrow)));
  EXPECT_THAT(job_notes(kLlama + "--world-size 1"), Not(HasSubstr(narrow)));
  EXPECT_EQ(job_given(eight, "reduce_gradients"), "reduce_gradients is not given");
  EXPECT_EQ(job_given(eight + "--training.global_batch_size 128", "reduce_gradients"), "reduce_gradients=each_pass");
}

TEST(FromTorchtitan, TheLossHoldsLogitsUnlessItIsCompiledOrInChunks) {
  const auto bytes = [](const std::string& flags) { return imported_job(kLlama + flags).engine.bytes_of_logit; };
  EXPECT_EQ(imported_job(kLlama).engine.program, "torchtitan");
  EXPECT_EQ(bytes(""), 12);
  EXPECT_EQ(bytes("--compile.enable"), 4);
  EXPECT_EQ(bytes("--parallelism.tensor_parallel_degree 2"), 12);
  EXPECT_EQ(bytes("--parallelism.tensor_parallel_degree 2 --parallelism.disable_loss_parallel"), 24);
  const auto parts = [](const std::string& job) { return imported_job(job).engine.parts_of_loss; };
  EXPECT_EQ(parts(kLlama), 1);
  EXPECT_EQ(parts("--config llama3_8b"), 8);
  EXPECT_EQ(parts("--config llama3_8b --loss.num_chunks 16"), 16);
}

TEST(FromTorchtitan, NumbersHaveTheirFormats) {
  EXPECT_EQ(job_given(kLlama + "--training.dtype bfloat16", "weight_dtype"), "weight_dtype=bfloat16");
  EXPECT_EQ(job_given(kLlama + "--training.mixed_precision_param float32", "dtype"), "dtype=float32");
  EXPECT_EQ(job_given(kLlama + "--model.converters quantize.linear.float8", "quantization"), "quantization=te_fp8_currentscaling");
  EXPECT_EQ(job_given(kLlama + "--model.converters quantize.linear.mx", "quantization"), "quantization=te_mxfp8");
  EXPECT_EQ(job_given(kLlama + "--float8.enable_float8_linear", "quantization"), "quantization=te_fp8_currentscaling");
  EXPECT_EQ(job_given(kLlama + "--optimizer.name Muon", "opt_type"), "opt_type=muon");
  EXPECT_EQ(job_given(kLlama + "--training.enable_cpu_offload", "optimizer_memory_host_offload"), "optimizer_memory_host_offload=true");
}

TEST(FromTorchtitan, TheScheduleIsInShares) {
  const std::string steps = kLlama + "--training.steps 1000 --lr_scheduler.warmup_steps 100 ";
  EXPECT_EQ(job_given(steps, "wsd_decay_steps_fraction"), "wsd_decay_steps_fraction=0.9");
  EXPECT_EQ(job_given(steps + "--lr_scheduler.decay_ratio 0.2", "wsd_decay_steps_fraction"), "wsd_decay_steps_fraction=0.2");
  EXPECT_EQ(job_given(steps + "--lr_scheduler.decay_type cosine", "wsd_decay_style"), "wsd_decay_style=cosine");
  EXPECT_THAT(job_notes(steps + "--lr_scheduler.decay_type sqrt"), HasSubstr("differs: --lr_scheduler.decay_type sqrt: the rate falls in a straight line\n"));
}

TEST(FromTorchtitan, KnowsTheMicrobatchesOfEarlierVersions) {
  const std::string staged = kLlama + "--world-size 8 --parallelism.pipeline_parallel_degree 2 --training.local_batch_size 8 ";
  for (const std::string section : {"parallelism", "experimental"}) {
    const std::string flag = "--" + section + ".pipeline_parallel_microbatches ";
    EXPECT_EQ(job_given(staged + flag + "4", "num_pipeline_microbatches"), "num_pipeline_microbatches=4");
    EXPECT_EQ(job_given(staged + flag + "4", "per_device_batch_size"), "per_device_batch_size=4");
    EXPECT_EQ(job_given("--" + section + ".pipeline_parallel_degree 2 " + kLlama + flag + "2", "num_pipeline_microbatches"),
              "num_pipeline_microbatches=2");
    EXPECT_THAT(job_refusal(staged + flag + "3"), HasSubstr("'3', a divisor of the 8 rows of a device was expected"));
  }
  for (const std::string flag :
       {"training.deterministic", "training.data_parallel_type fsdp", "lr_scheduler.lr_min 0", "training.warmup_pct 0.1",
        "model.use_flex_attn", "parallelism.pipeline_parallel_split_points layers.1", "training.enable_fp8_linear"}) {
    EXPECT_THAT(job_notes(kLlama + "--" + flag), Not(HasSubstr("unknown"))) << flag;
  }
  EXPECT_EQ(job_given(kLlama + "--training.enable_fp8_linear", "quantization"), "quantization=te_fp8_currentscaling");
  EXPECT_EQ(job_given(kLlama + "--training.sequence_parallel_degree 2", "ici_tensor_sequence_parallelism"),
            "ici_tensor_sequence_parallelism=2");
}

TEST(FromTorchtitan, TellsLengthsThatTorchtitanRefuses) {
  const std::string split = kLlama + "--parallelism.tensor_parallel_degree 4 --parallelism.context_parallel_degree 2 ";
  EXPECT_THAT(job_notes(split + "--training.seq_len 1032"), HasSubstr("differs: torchtitan refuses 1032 tokens of a row: a multiple of 16, "
                                                                      "tensor x twice the context parallelism, is expected there\n"));
  EXPECT_THAT(job_notes(split + "--training.max_context_length 1024 --training.num_tokens_per_microbatch_per_dp_rank 1032"),
              HasSubstr("refuses 1032 tokens of a microbatch: a multiple of 16"));
  EXPECT_THAT(job_notes(split + "--training.seq_len 1024"), Not(HasSubstr("refuses")));
  EXPECT_THAT(job_notes(kLlama), Not(HasSubstr("refuses")));
}

TEST(FromTorchtitan, NamesWhatItDoesNotKnow) {
  EXPECT_THAT(job_notes(kLlama + "--training.seq_length 4"),
              HasSubstr("unknown: --training.seq_length is no flag of torchtitan, and says nothing here; the nearest is --training.seq_len\n"));
  EXPECT_THAT(job_notes(kLlama + "--metrics.log_freq 1 --checkpoint.enable --comm.trace_buf_size 2"),
              HasSubstr("not needed: metrics, checkpoint, comm (sections that say nothing of a step)\n"));
  EXPECT_THAT(job_notes(kLlama + "--parallelism.module_fqns_per_model_part x"), HasSubstr("differs: --parallelism.module_fqns_per_model_part: stages have as many layers each\n"));
  EXPECT_THAT(job_notes(kLlama + "--compile.backend x"), HasSubstr("not needed: --compile.backend (how kernels compute"));
}

// Extracts from the source the names that it asks for; each must be in the list of translated settings.
TEST(FromTorchtitan, KnowsTheNamesOfTheSettingsThatItTranslates) {
  const std::string source = test::read_text(test::source_folder() / "src/foreign/torchtitan.cc");
  const std::string listed = source.substr(source.find("kTranslatedSettings[]"), source.find("kIdleSections[]") - source.find("kTranslatedSettings[]"));
  const std::regex call("(flags_\\.\\w+|degree)\\(\"([a-z_0-9.]+)\"");
  for (std::sregex_iterator at(source.begin(), source.end(), call), end; at != end; ++at) {
    const std::string name = (*at)[1] == "degree" ? "parallelism." + (*at)[2].str() : (*at)[2].str();
    EXPECT_THAT(listed, HasSubstr("\"" + name + "\""));
  }
}

TEST(FromTorchtitan, AllItsConfigurationsAreModelsOfMoesh) {
  for (const std::string& name : known_configurations()) {
    SCOPED_TRACE(name);
    EXPECT_EQ(test::message_of([&] { config::load(imported_job("--config " + name + " --world-size 512").keys); }), "no error");
    EXPECT_THAT(job_notes("--config " + name + " --world-size 512"), Not(HasSubstr("unknown")));
  }
}

TEST(FromTorchtitan, RefusesModelsAndConfigurationsThatItDoesNotHave) {
  EXPECT_THAT(job_refusal("--model.name llama3 --model.flavor 9B"),
              HasSubstr("--from torchtitan: --model.flavor: model 'llama3', flavor '9B' is none that moesh has: llama3 8B, llama3 70B, llama3 405B was expected\n"
                        "  fix: model_name= for one of `moesh help models` or a Hugging Face folder"));
  EXPECT_THAT(job_refusal("--model.name flux --model.flavor dev"), HasSubstr("model 'flux', flavor 'dev' is none that moesh has: llama3 8B, "));
  EXPECT_THAT(job_refusal("CONFIG=llama3_9b ./run_train.sh"),
              HasSubstr("--from torchtitan: configuration 'llama3_9b' is Python that moesh does not read, one of llama3_8b, llama3_70b, "));
  EXPECT_EQ(given(imported_job("--model.name flux", {"model_name=mixtral-8x7b"}), "model_name"), "model_name is not given");
}

TEST(FromTorchtitan, RefusesDegreesThatDoNotFit) {
  EXPECT_EQ(job_refusal(kLlama + "--world-size 8 --parallelism.data_parallel_shard_degree 4"),
            "--from torchtitan: 8 devices for tensor 1 x context 1 x pipeline 1 x data 4: exactly 4 was expected\n  fix: 4 devices, or other degrees");
  EXPECT_EQ(job_refusal(kLlama + "--parallelism.data_parallel_shard_degree 0"),
            "--from torchtitan: --parallelism.data_parallel_shard_degree: '0', a whole number from 1, or -1 for what is left was expected\n"
            "  fix: correct it, or leave it out");
  EXPECT_EQ(job_refusal(kLlama + "--world-size 8 --parallelism.data_parallel_replicate_degree 3"),
            "--from torchtitan: 8 devices for tensor 1 x context 1 x pipeline 1 x replicas 3: a multiple of 3 was expected\n  fix: 6 devices, or other degrees");
  EXPECT_EQ(job_refusal(kQwen + "--world-size 8 --parallelism.data_parallel_replicate_degree 4 --parallelism.expert_parallel_degree 4"),
            "--from torchtitan: expert 4 x tensor 1 in experts do not divide data 2 x context 1 x tensor 1\n"
            "  fix: 2 ways to split experts, or other degrees");
}

TEST(FromTorchtitan, RefusesFilesThatAreNoJobs) {
  const test::TemporaryFolder folder;
  const std::string broken = folder.write("broken.toml", "[training]\nseq_len =\n"), wrong = folder.write("wrong.toml", "[training]\nseq_len = \"long\"\n");
  EXPECT_THAT(job_refusal(broken), HasSubstr(broken + ":2: no TOML: "));
  EXPECT_EQ(job_refusal(kLlama + wrong), wrong + ":2: training.seq_len: 'long', a whole number from 1 was expected\n  fix: correct it, or leave it out");
  EXPECT_EQ(job_refusal("/none.toml"), "/none.toml: the job cannot be read: No such file or directory\n  fix: name the TOML file of a job");
  EXPECT_THAT(job_refusal(kLlama + "--lr_scheduler.decay_ratio -1"), HasSubstr("'-1', a share from 0 to 1 was expected"));
}

TEST(FromTorchtitan, RefusesJobsThatNameNoModel) {
  const test::TemporaryFolder folder;
  const std::string refusal =
      "--from torchtitan: neither model.name nor model.flavor is given, and torchtitan's default, a model for debugging, is none that "
      "moesh has\n"
      "  fix: add both, such as --model.name llama3 --model.flavor 8B, or model_name= for one of `moesh help models`";
  EXPECT_EQ(job_refusal(folder.write("job.toml", "[training]\nseq_len = 4096\n")), refusal);
  EXPECT_EQ(job_refusal("--training.seq_len 4096"), refusal);
  EXPECT_EQ(job_refusal("--training.seq_len 4096", {"model_name=llama2-7b"}), "no error");
  for (const std::string word : {"job.yaml", "llama3_8b", "/nowhere/at/all"}) {
    EXPECT_EQ(job_refusal(word), "--from torchtitan: '" + word + "' is neither a TOML file nor a command\n"
                                 "  fix: name a job's file, which ends in .toml, or give the command in quotes");
  }
}

TEST(FromProgram, RefusesWhatIsNoCommandOfAProgram) {
  EXPECT_EQ(test::message_of([] { from_program("deepspeed", "--x", {}); }),
            "the command line: --from deepspeed: megatron or torchtitan was expected\n  fix: --from megatron \"--num-layers 32 ...\"");
  EXPECT_EQ(test::message_of([] { from_program("megatron", " ", {}); }), "--from megatron: no command\n  fix: give it in quotes, or @FILE with it");
  EXPECT_EQ(test::message_of([] { from_hugging_face("/tmp", {}); }),
            "--hf: '/tmp' has no description of a model\n  fix: name a folder with a Hugging Face config.json");
}

TEST(FromProgram, ReadsTheCommandFromAFile) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(given(from_program("torchtitan", "@" + folder.write("command", kLlama), {}), "model_name"), "model_name=llama3.1-8b");
}

}  // namespace
}  // namespace moesh::foreign
