// Commands of other programs, translated and run as whole command lines.
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "foreign/words.h"
#include "tests/cli/outcome.h"
#include "tests/paths.h"

namespace moesh::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kFlags = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --micro-batch-size 1 --bf16 --swiglu "
                           "--normalization RMSNorm --position-embedding-type rope --disable-bias-linear --attention-dropout 0 --hidden-dropout 0 "
                           "--untie-embeddings-and-output-weights --vocab-size 256 --world-size 4 --log-interval 1 --tensor-model-paralel-size 2";

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  for (const foreign::ShellWord& word : foreign::shell_words(line, "a test")) words.push_back(word.text);
  return words;
}

// The first command of the output, from "moesh lint ..." over all lines that a backslash continues.
std::string first_command(const std::string& out) {
  std::size_t end = out.find('\n');
  while (end != std::string::npos && end > 0 && out[end - 1] == '\\') end = out.find('\n', end + 1);
  return out.substr(0, end);
}

TEST(CommandsOfOtherPrograms, AreToldInMoeshsKeysWithWhatIsLeftOut) {
  const Outcome shown = outcome_of({"lint", "--from", "megatron", kFlags, "compile_topology=h100-4"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out,
              StartsWith("moesh lint decoder_block=llama2 base_num_decoder_layers=2 base_emb_dim=64 base_num_query_heads=4 \\\n"
                         "    logits_via_embedding=false base_num_kv_heads=4 head_dim=16 base_mlp_dim=128 vocab_size=256 \\\n"
                         "    max_target_length=32 ici_data_parallelism=4 ici_fsdp_parallelism=1 per_device_batch_size=1 \\\n"
                         "    remat_policy=everything compile_topology=h100-4\n"));
  EXPECT_THAT(shown.out, HasSubstr("\nnot needed: --log-interval (logging, profiling, evaluation, checkpoints and restarts)\n"
                                   "unknown: --tensor-model-paralel-size is no flag of Megatron-LM, and says nothing here; the nearest is "
                                   "--tensor-model-parallel-size\n\n"));
  EXPECT_THAT(shown.out, HasSubstr("default on h100-4: 4 devices as data=4, default rules\n"));
}

TEST(CommandsOfOtherPrograms, WhatIsToldIsTheSameRequest) {
  const Outcome shown = outcome_of({"shardings", "--from", "torchtitan", "--config llama3_8b --parallelism.tensor_parallel_degree 2", "compile_topology=h100-8"});
  std::vector<std::string> told = words_of(first_command(shown.out));
  ASSERT_EQ(told.front(), "moesh");
  told.erase(told.begin());
  const Outcome pasted = outcome_of(told);
  EXPECT_EQ(pasted.code, 0) << pasted.err;
  EXPECT_FALSE(pasted.out.empty());
  EXPECT_THAT(shown.out, ::testing::EndsWith(pasted.out.substr(pasted.out.find("\n\n"))));
}

TEST(CommandsOfOtherPrograms, LoadNoMoreRowsThanTheyTrain) {
  const std::string split = "--config llama3_8b --parallelism.tensor_parallel_degree 2";
  for (const char* command : {"shardings", "lint"}) {
    const Outcome shown = outcome_of({command, "--from", "torchtitan", split, "compile_topology=h100-8"});
    EXPECT_THAT(shown.out, HasSubstr("\n4 rows of 8,192 tokens a step, 0.5 a device\n")) << command;
  }
  const Outcome made = outcome_of({"lint", "--json", "--from", "torchtitan", split, "compile_topology=h100-8"});
  EXPECT_EQ(nlohmann::json::parse(made.out)["batch"]["rows_loaded"], 4);
}

TEST(CommandsOfOtherPrograms, AreToldWhatTheirProgramHoldsBesides) {
  const std::string job = "--model.name llama3 --model.flavor 8B --training.seq_len 8192 --training.local_batch_size 1";
  const auto of = [&](const std::string& command, const std::string& flags) {
    return outcome_of({command, "--from", "torchtitan", job + flags, "compile_topology=h100-8"}).out;
  };
  for (const char* command : {"compile", "lint", "shardings"})
    EXPECT_THAT(of(command, ""), HasSubstr(" torchtitan's step would hold 11.7 GiB of logits besides.")) << command;
  const std::string chunked = "--config llama3_8b --world-size 8", own = "compile_topology=h100-8";
  EXPECT_THAT(outcome_of({"compile", "--from", "torchtitan", chunked, own}).out, Not(HasSubstr("would hold")));
  const auto json = nlohmann::json::parse(outcome_of({"compile", "--json", "--from", "torchtitan", job, own}).out);
  EXPECT_FALSE(json.contains("xla"));
  EXPECT_EQ(json["program"]["name"], "torchtitan");
  EXPECT_EQ(json["program"]["logits"], std::int64_t{12} * 8192 * 128256);
  const auto in_chunks = nlohmann::json::parse(outcome_of({"compile", "--json", "--from", "torchtitan", chunked, own}).out);
  EXPECT_EQ(in_chunks["program"]["logits"], std::int64_t{12} * 8192 * 128256 / 8);
}

// 1.13 times the 45.4 GiB that are planned would fit, but logits take 35.2 GiB beside what lives at the loss.
TEST(CommandsOfOtherPrograms, FitNarrowlyIfTheirProgramHoldsTooMuchBesides) {
  const std::string job = "--model.name llama3 --model.flavor 8B --training.seq_len 8192 --training.local_batch_size 3";
  const Outcome shown = outcome_of({"lint", "--from", "torchtitan", job, "compile_topology=h100-8"});
  EXPECT_THAT(shown.out, HasSubstr(", which is narrow. torchtitan's step would take about "));
  EXPECT_THAT(shown.out, HasSubstr(" of logits besides."));
}

TEST(CommandsOfOtherPrograms, KeysOfTheUsersOwnWin) {
  const Outcome shown = outcome_of({"lint", "--from", "megatron", kFlags, "remat_policy=full", "vocab_size=512"});
  EXPECT_THAT(first_command(shown.out), HasSubstr(" remat_policy=full vocab_size=512"));
  EXPECT_THAT(first_command(shown.out), Not(HasSubstr("everything")));
  EXPECT_THAT(first_command(shown.out), Not(HasSubstr("vocab_size=256")));
}

TEST(CommandsOfOtherPrograms, JsonStaysAlone) {
  const Outcome shown = outcome_of({"lint", "--json", "--from", "megatron", kFlags, "compile_topology=h100-4"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_TRUE(nlohmann::json::parse(shown.out).contains("findings"));
  EXPECT_THAT(shown.err, StartsWith("moesh lint decoder_block=llama2 "));
  EXPECT_THAT(shown.err, HasSubstr("\nunknown: --tensor-model-paralel-size "));
}

TEST(CommandsOfOtherPrograms, AFolderOfHuggingFaceIsTheModel) {
  const std::string folder = (test::source_folder() / "tests/golden/hf/llama").string();
  const Outcome shown = outcome_of({"lint", "--hf", folder, "compile_topology=v6e-8", "per_device_batch_size=1"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(words_of(first_command(shown.out)), ::testing::Contains("model_name=" + folder));
  const Outcome both = outcome_of({"lint", "--hf", folder, "--from", "megatron", kFlags, "compile_topology=v6e-8"});
  EXPECT_THAT(both.out, HasSubstr("assumed: model_name is yours: what the flags say of the model's sizes is left out\n"));
}

TEST(CommandsOfOtherPrograms, AreRefusedWithWhatIsMissing) {
  const auto error = [](const std::vector<std::string>& words) {
    const Outcome shown = outcome_of(words);
    EXPECT_EQ(shown.code, 2);
    return shown.err;
  };
  const std::string unquoted = "moesh: error: the command line: the command behind --from is several words of this command line\n"
                               "  fix: put it in quotes: --from megatron \"--num-layers 32 --hidden-size 4096 ...\"\n";
  EXPECT_EQ(error({"lint", "--from", "megatron", "--num-layers", "32", "--hidden-size", "64"}), unquoted);
  EXPECT_EQ(error({"lint", "--from", "megatron", "--num-layers", "32"}), unquoted);
  EXPECT_EQ(error({"lint", "--from", "megatron"}), "moesh: error: the command line: --from takes PROGRAM TEXT, which is missing\n");
  EXPECT_EQ(error({"lint", "--from=megatron", "--bf16"}), "moesh: error: the command line: --from takes PROGRAM TEXT, which is missing\n");
  EXPECT_EQ(error({"lint", "--from", "megatron", kFlags, "--from", "megatron", kFlags}),
            "moesh: error: the command line: --from more than once\n  fix: give it once\n");
  EXPECT_THAT(error({"lint", "--from", "megatron", kFlags, "--jsn"}), HasSubstr("--jsn"));
  EXPECT_THAT(error({"train", "--from", "megatron", kFlags}), HasSubstr("--from"));
}

TEST(CommandsOfOtherProgramsSlow, AreTakenByLintAndCompile) {
  const test::WorkingFolder top(test::source_folder());
  std::set<fs::path> paths;
  for (const auto& entry : fs::directory_iterator("tests/golden/foreign")) {
    if (entry.path().extension() == ".txt") paths.insert(entry.path());
  }
  for (const fs::path& path : paths) {
    SCOPED_TRACE(path.string());
    const std::string text = test::read_text(path), program = path.stem().string();
    const std::string command = text.substr(0, text.find("\n---\n"));
    const Outcome linted = outcome_of({"lint", "--from", program.substr(0, program.find('-')), command});
    EXPECT_TRUE(linted.code == 0 || linted.code == 1) << linted.err;
    EXPECT_EQ(linted.err, "");
    if (linted.out.find("ici_pipeline_parallelism=") != std::string::npos) continue;
    EXPECT_EQ(outcome_of({"compile", "--from", program.substr(0, program.find('-')), command}).code, 0);
  }
}

}  // namespace
}  // namespace moesh::cli
