// `moesh bench`: where the time of a step, a token, a prompt or a kernel goes.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/command.h"
#include "config/load.h"
#include "measure/library.h"
#include "tests/cli/outcome.h"
#include "tests/support.h"

namespace moesh::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kSmall =
    " model_name=mixtral-8x7b override_model_config=true base_num_decoder_layers=2 base_emb_dim=16 base_num_query_heads=2 "
    "base_num_kv_heads=1 head_dim=8 base_mlp_dim=24 base_moe_mlp_dim=24 vocab_size=64 max_target_length=16 num_experts=4 "
    "dataset_type=synthetic compile_topology=cpu-2 ici_fsdp_parallelism=2 steps=2";

TEST(Bench, ShowsWhereAStepsTimeGoes) {
  const test::Variable width("COLUMNS", "100");
  const Outcome made = outcome(std::string("bench") + kSmall);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("mixtral-8x7b on cpu-2: 2 devices as fsdp=2"), HasSubstr("\neinsum bfloat16 "), HasSubstr("\nbetween instructions"),
                              HasSubstr(" ms a step, "), HasSubstr(" tokens/s, "), HasSubstr("This machine in GFLOP/s: float32 ")));
  for (const std::string& line : split(outcome(std::string("bench --all") + kSmall).out, '\n')) EXPECT_LE(display_width(line), 100) << line;
}

TEST(Bench, WritesTheSameAsJson) {
  for (const char* option : {"bench --json", "bench --json --all"}) {
    const Outcome made = outcome(option + std::string(kSmall));
    ASSERT_EQ(made.code, 0) << made.err;
    const auto json = nlohmann::json::parse(made.out);
    double seconds = 0, flops = 0;
    for (const auto& one : json["instructions"]) {
      seconds += one["seconds"].get<double>();
      flops += one["flops"].get<double>();
      EXPECT_GT(one["runs"].get<int>(), 0);
    }
    EXPECT_LE(seconds, json["seconds_per_step"].get<double>());
    EXPECT_GT(seconds, 0.5 * json["seconds_per_step"].get<double>());
    EXPECT_GT(flops, json["model_flops"].get<double>()) << "what is computed again is counted too";
    EXPECT_GT(json["machine"]["float32_large_product"].get<double>(), 0);
  }
}

TEST(Bench, ShowsWhereATokensTimeGoesAndWhatWeightsItReads) {
  const Outcome made = outcome("bench decode per_device_batch_size=2" + std::string(kSmall));
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("\ncache_write "), HasSubstr(" ms a token of 4 rows, "), HasSubstr(" of weights are read: "),
                              HasSubstr("This machine in GFLOP/s: ")));
  const auto json = nlohmann::json::parse(outcome("bench decode --json per_device_batch_size=2" + std::string(kSmall)).out);
  EXPECT_EQ(json["rows"], 4);
  EXPECT_GT(json["tokens_per_second"].get<double>(), 0);
  EXPECT_GT(json["weights_read"].get<double>(), 0);
  EXPECT_FALSE(json["instructions"].empty());
}

TEST(Bench, ShowsWhereAPromptsTimeGoes) {
  const std::string prompt = "per_device_batch_size=2 max_target_length=8 steps=3";
  const Outcome made = outcome("bench prefill" + (kSmall + (" " + prompt)));
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("\ncache_write "), HasSubstr(" ms a prompt of 8 tokens for 4 rows, ")));
  const auto json = nlohmann::json::parse(outcome("bench prefill --json" + (kSmall + (" " + prompt))).out);
  EXPECT_EQ(json["rows"], 4);
  EXPECT_EQ(json["tokens_of_prompt"], 8);
  EXPECT_NEAR(json["tokens_per_second"].get<double>() * json["seconds_per_prompt"].get<double>(), 32, 1e-6);
}

// One row reads two of the four experts and many rows read all of them. Weights count in the bytes of the
// compute type, in which decoding keeps them.
TEST(Bench, CountsTheWeightsThatATokenNeeds) {
  const auto read = [](const std::string& more) {
    const std::string one_device = " compile_topology=cpu-1 ici_fsdp_parallelism=1 ";
    return nlohmann::json::parse(outcome("bench decode --json" + (kSmall + one_device + more)).out)["weights_read"].get<double>();
  };
  const double one = read("per_device_batch_size=1 dtype=float32 "), all = read("per_device_batch_size=64 dtype=float32 ");
  constexpr double kExpert = 2 * 3 * 16 * 24 * 4;  // bytes of one expert in both layers
  constexpr double kRow = 16 * 4;                  // bytes of one row of the embedding
  EXPECT_NEAR(all - one, 2 * kExpert + 63 * kRow, 1);
  EXPECT_NEAR(read("per_device_batch_size=1 dtype=bfloat16 float32_gate_logits=false "), one / 2, 1);
}

TEST(Bench, ComputesWithAsManyThreadsAsAreAskedFor) {
  EXPECT_EQ(outcome("bench step --threads 1" + std::string(kSmall)).code, 0);
  for (const std::string threads : {"0", "-1", "4097", "two", "1.5"}) {
    const Outcome made = outcome("bench --threads=" + threads + kSmall);
    EXPECT_EQ(made.code, 2);
    EXPECT_THAT(made.err, HasSubstr("--threads " + threads + ": not a number from 1 to 4096"));
  }
}

TEST(Bench, TimesTenStepsUnlessToldHowMany) {
  const auto timed = [](const std::string& request) { return timed_steps(config::load(test::words_of(request)).settings); };
  EXPECT_EQ(timed("model_name=mixtral-8x7b"), 10);
  EXPECT_EQ(timed("model_name=mixtral-8x7b steps=3"), 3);
}

TEST(Bench, RefusesToTimeNoSteps) {
  for (const std::string command : {"bench", "bench decode"}) {
    const Outcome made = outcome(command + kSmall + " steps=0");
    EXPECT_EQ(made.code, 2) << command;
    EXPECT_THAT(made.err, HasSubstr("steps=0: how many are to be timed?"));
  }
}

TEST(Bench, RefusesWhatATrainingRunDoes) {
  EXPECT_EQ(outcome("bench model_name=no-such-model").code, 2);
  EXPECT_THAT(outcome(std::string("bench kernel") + kSmall).err, HasSubstr("kernel"));
}

TEST(BenchKernels, TimesThoseThatAreAskedFor) {
  const Outcome made = outcome("bench kernels --only norm --threads 1");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("rms_norm: norm float32 "), HasSubstr("rms_norm: norm bfloat16 "), HasSubstr("2048x1024, 1024"),
                              HasSubstr("sum_squares: norm of a gradient"), HasSubstr("This machine in GFLOP/s: float32 ")));
  EXPECT_EQ(made.out.find("einsum"), std::string::npos);
}

// Every listed kernel runs on its operands; a build with a sanitizer runs only some of them.
TEST(BenchKernels, WritesAllOfThemAsJson) {
  const Outcome made = outcome(std::string("bench kernels --json") + (test::kIsSanitized ? " --only ro" : ""));
  ASSERT_EQ(made.code, 0) << made.err;
  const auto json = nlohmann::json::parse(made.out);
  EXPECT_GE(json["kernels"].size(), test::kIsSanitized ? 4 : 45);
  for (const auto& of : json["kernels"]) {
    EXPECT_GT(of["seconds"].get<double>(), 0) << of;
    EXPECT_GT(of["bytes"].get<double>(), 0) << of;
    EXPECT_GT(of["share"].get<double>(), 0) << of;
  }
}

TEST(BenchKernels, SaysWhichLibrariesProductsAreHeldTo) {
  const Outcome made = outcome("bench kernels --only token --threads 1");
  ASSERT_EQ(made.code, 0) << made.err;
  const auto libraries = measure::installed_libraries(1);
  const auto json = nlohmann::json::parse(outcome("bench kernels --json --only token --threads 1").out);
  for (const auto& of : json["kernels"]) {
    const bool is_product = of["kernel"].get<std::string>().starts_with("einsum");
    if (libraries.empty() || of["type"] != "float32" || !is_product) {
      EXPECT_FALSE(of.contains("library_seconds")) << of;
    } else {
      ASSERT_EQ(of["library_seconds"].size(), libraries.size()) << of;
      EXPECT_GT(of["library_seconds"][libraries[0].name].get<double>(), 0) << of;
    }
  }
  const std::string text = join(split(made.out, '\n'), " ");
  if (libraries.empty())
    EXPECT_THAT(text, HasSubstr("No library is beside products: OpenBLAS (libopenblas0) and oneDNN (libdnnl) are not installed."));
  else
    EXPECT_THAT(text, HasSubstr("\"Library\" is how many times as fast as "));
}

// The picture has a bar for each line of the table.
TEST(BenchSlow, DrawsWhatItMeasured) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/times.svg";
  for (const std::string& command :
       {"bench" + std::string(kSmall), "bench decode" + std::string(kSmall), "bench prefill" + std::string(kSmall) + " max_target_length=8",
        std::string("bench kernels --only norm --threads 1")}) {
    const auto json = nlohmann::json::parse(outcome(command + " --json --plot " + path).out);
    const auto& lines = json.contains("kernels") ? json["kernels"] : json["instructions"];
    const std::string picture = test::read_text(path);
    EXPECT_THAT(picture, AllOf(::testing::StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""), ::testing::EndsWith("</svg>\n")));
    std::size_t names = 0;
    for (std::size_t at = 0; (at = picture.find("<text class=\"name\"", at)) != std::string::npos; ++at) ++names;
    EXPECT_EQ(names, lines.size()) << command;
    EXPECT_THAT(picture, HasSubstr(">" + (json.contains("kernels") ? lines[0]["kernel"] : lines[0]["kind"]).get<std::string>())) << command;
    std::filesystem::remove(path);
    EXPECT_THAT(outcome(command + " --plot " + path).out, HasSubstr("\nThe picture is in " + path + ": "));
    EXPECT_TRUE(std::filesystem::exists(path)) << command;
  }
  const Outcome made = outcome("bench kernels --only silu --threads 1 --plot " + folder.path() + "/none/times.svg");
  EXPECT_EQ(made.code, 1);
  EXPECT_THAT(made.out, HasSubstr("This machine in GFLOP/s")) << "what was measured is not lost";
  EXPECT_THAT(made.err,
              AllOf(HasSubstr("/none/times.svg: the file cannot be written"), HasSubstr("fix: --plot FILE names one that can be written")));
}

TEST(BenchKernels, RefusesWhatItDoesNotTake) {
  EXPECT_THAT(outcome("bench kernels --only no-such").err, HasSubstr("no kernel has 'no-such' in its name"));
  EXPECT_THAT(outcome(std::string("bench kernels") + kSmall).err, HasSubstr("`bench kernels` with model_name=mixtral-8x7b"));
  EXPECT_THAT(outcome("bench kernels --all").err, HasSubstr("`bench kernels` with --all"));
  EXPECT_THAT(outcome("bench --only norm" + std::string(kSmall)).err, HasSubstr("--only without `kernels`"));
  EXPECT_THAT(outcome("bench decode --only norm" + std::string(kSmall)).err, HasSubstr("--only without `kernels`"));
  EXPECT_EQ(outcome("bench kernels --all").code, 2);
}

}  // namespace
}  // namespace moesh::cli
