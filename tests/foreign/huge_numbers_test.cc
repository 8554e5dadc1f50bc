// Gives huge numbers to every flag of the other programs. Each is either refused or translated to keys with sensible numbers.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/text.h"
#include "foreign/import.h"
#include "foreign/megatron.h"
#include "foreign/torchtitan.h"
#include "tests/cli/outcome.h"

namespace moesh::foreign {
namespace {

struct Program {
  std::string name;
  std::vector<std::string> commands;  // of a dense model, of one with experts, ...
  std::span<const std::string_view> flags;
};

const std::string kModelFlags =
    "--num-layers 8 --hidden-size 64 --num-attention-heads 8 --ffn-hidden-size 128 --swiglu --normalization RMSNorm --seq-length 32 "
    "--micro-batch-size 1 --disable-bias-linear --position-embedding-type rope --bf16 ";

std::vector<Program> programs() {
  return {{"megatron",
           {kModelFlags, kModelFlags + "--num-experts 8 --global-batch-size 8 --lr 0.1 --train-samples 800 ",
            kModelFlags + "--num-experts 8 --multi-latent-attention --pipeline-model-parallel-size 2 "},
           translated_megatron_flags()},
          {"torchtitan",
           {"--model.name llama3 --model.flavor 8B ",
            "--model.name qwen3 --model.flavor 30B-A3B --training.num_tokens_per_microbatch_per_dp_rank 8192 ",
            "--model.name llama3 --model.flavor 8B --parallelism.pipeline_parallel_degree 2 "},
           translated_torchtitan_settings()}};
}

const std::vector<std::string> kHuge{"1000000000",          "1000000001",          "4294967296",
                                     "1000000000000",       "9223372036854775807", "9223372036854775808",
                                     "-9223372036854775808", "1e308",              "0"};

// Whether the key's value, if it is a number, shows no overflow. -1 is allowed, as it means "all" or "what is left".
bool is_sound(const std::string& key) {
  const std::optional<double> value = parse_real(key.substr(key.find('=') + 1));
  return !value || *value >= -1;
}

void expect_sound_keys(const std::string& program, const std::string& command) {
  SCOPED_TRACE(program + ": " + command);
  try {
    for (const std::string& key : from_program(program, command, {}).keys) EXPECT_TRUE(is_sound(key)) << key;
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2) << error.what();
  }
}

TEST(HugeNumbersSlow, OfEveryFlagAreRefusedOrGiveSoundKeys) {
  for (const Program& program : programs()) {
    for (const std::string& command : program.commands) {
      for (const std::string_view flag : program.flags) {
        for (const std::string& value : kHuge) expect_sound_keys(program.name, fmt::format("{}--{} {}", command, flag, value));
      }
    }
  }
}

TEST(HugeNumbersSlow, OfEveryTwoFlagsAreRefusedOrGiveSoundKeys) {
  for (const Program& program : programs()) {
    for (const std::string_view one : program.flags) {
      for (const std::string_view other : program.flags) {
        if (one < other) expect_sound_keys(program.name, fmt::format("{}--{} 1000000000 --{} 1000000000", program.commands[0], one, other));
      }
    }
  }
}

TEST(HugeNumbersSlow, ArePlannedOrRefused) {
  for (const Program& program : programs()) {
    for (const std::string_view flag : program.flags) {
      for (const std::string value : {"1000000000", "4294967296"}) {
        const std::string command = fmt::format("{}--{} {}", program.commands[0], flag, value);
        SCOPED_TRACE(program.name + ": " + command);
        const cli::Outcome shown = cli::outcome_of({"shardings", "--from", program.name, command, "compile_topology=h100-8"});
        EXPECT_TRUE(shown.code == 0 || shown.code == 2) << shown.err;
      }
    }
  }
}

TEST(HugeNumbers, MakeNoUnitOfTheVocabularyThatWrapsAround) {
  const std::string four_billions = "4294967296";
  EXPECT_EQ(test::message_of([&] {
              from_program("megatron", kModelFlags + "--make-vocab-size-divisible-by " + four_billions + " --tensor-model-parallel-size " +
                                           four_billions, {"compile_topology=h100-8"});
            }),
            "--from megatron: --tensor-model-parallel-size: '4294967296', at most 1,000,000,000 was expected\n"
            "  fix: correct it, or leave it out");
}

}  // namespace
}  // namespace moesh::foreign
