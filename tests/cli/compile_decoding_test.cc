// `moesh compile`, `why` and `shardings` with --decode and --prefill.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "config/builtin.h"
#include "tests/cli/json_outcome.h"

namespace moesh::cli {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kTensor =
    " model_name=mixtral-8x7b compile_topology=h100-8 ici_fsdp_parallelism=1 ici_tensor_parallelism=8 per_device_batch_size=1 "
    "max_target_length=4096";
constexpr const char* kExpertTensor =
    " --diff ici_tensor_parallelism=1 ici_expert_parallelism=8 custom_mesh_and_rule=ep-tp use_ring_of_experts=true";

TEST(CompileDecoding, TellsRowsCacheTimeAndCollectives) {
  const Outcome made = outcome(std::string("compile --decode") + kTensor);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("\na token for each of 8 rows, 1 a device; the KV cache has room for 4,096 tokens a row\n"),
                              HasSubstr("\nIt fits: "), HasSubstr("\nAt most "), HasSubstr(" rows fit: per_device_batch_size="),
                              HasSubstr("\nA token for each of 8 rows takes "), HasSubstr(" are communication that they wait for."),
                              HasSubstr("\nThe KV cache takes 512.2 MiB a device, 64.0 MiB for each row.\n"), HasSubstr("\nKV cache "),
                              HasSubstr("`moesh why c1 --decode ...` tells why.")));
  EXPECT_THAT(made.out, AllOf(Not(HasSubstr("optimizer")), Not(HasSubstr("MFU")), Not(HasSubstr("narrowly"))));
  EXPECT_THAT(made.out, Not(HasSubstr("devices hold the same part")));
  EXPECT_THAT(outcome(std::string("compile --decode") + kTensor + " ici_tensor_parallelism=1 ici_expert_parallelism=8").out,
              HasSubstr("; 8 devices hold the same part."));
}

// A command of training may ask for chunks that a step of decoding has too few tokens for.
TEST(CompileDecoding, TakesAsManyChunksOfTokensAsDivideThem) {
  const std::string sparse = " model_name=mixtral-8x7b compile_topology=h100-8 ici_expert_parallelism=8 per_device_batch_size=1 --json ";
  const auto step = [&](const std::string& words) {
    const Json json = json_of("compile" + words);
    return std::pair(json["memory_per_device"]["peak"], json["seconds_per_step"]);
  };
  EXPECT_EQ(step(" --decode num_moe_token_chunks=4" + sparse), step(" --decode" + sparse));
  const std::string six = " --prefill max_prefill_predict_length=6" + sparse;
  EXPECT_EQ(step(six + "num_moe_token_chunks=4"), step(six + "num_moe_token_chunks=2"));
}

TEST(CompileDecoding, TellsWhatKeepsASingleRowOut) {
  const std::string two =
      " model_name=mixtral-8x7b compile_topology=a100-40gb-2 ici_fsdp_parallelism=1 ici_tensor_parallelism=2 "
      "per_device_batch_size=0.5";
  EXPECT_THAT(outcome("compile --decode" + two).out,
              AllOf(HasSubstr("\nIt does not fit: "),
                    HasSubstr("\nNot a single row fits: the weights take 43.5 GiB a device, and the KV cache of a row 128.0 MiB.\n")));
  const Json json = json_of("compile --decode --json" + two);
  EXPECT_FALSE(json["fits"].get<bool>());
  EXPECT_EQ(json["decoding"]["most_rows"], 0);
}

// Where devices along an axis of the batch hold copies of the cache. What is told is what the pasted setting gives.
TEST(CompileDecoding, TellsWhatSpreadsACacheOfWhichDevicesHoldCopies) {
  const std::string small = "compile --decode override_model_config=true base_num_decoder_layers=2 max_target_length=8192 per_device_batch_size=8 ";
  int told = 0;
  for (const char* layout :
       {"model_name=deepseek2-16b first_num_dense_layers=1 compile_topology=h100-8 ici_expert_parallelism=8 ici_fsdp_parallelism=1",
        "model_name=mixtral-8x7b compile_topology=h100-8 ici_expert_parallelism=4 ici_tensor_parallelism=2 ici_fsdp_parallelism=1",
        "model_name=llama2-7b compile_topology=v6e-8 ici_data_parallelism=8 ici_fsdp_parallelism=1"}) {
    const std::string request = small + layout;
    const Json json = json_of(request + " --json");
    ASSERT_TRUE(json.contains("what_spreads_the_kv_cache")) << layout;
    const Json& spread = json["what_spreads_the_kv_cache"];
    const std::string key = spread["keys"].at(0);
    const Json pasted = json_of(request + " --json " + key);
    EXPECT_EQ(pasted["seconds_per_step"], spread["seconds_per_step"]) << layout;
    EXPECT_EQ(pasted["memory_per_device"]["peak"], spread["peak_bytes_per_device"]) << layout;
    EXPECT_LT(pasted["decoding"]["kv_cache"]["bytes_per_device"], json["decoding"]["kv_cache"]["bytes_per_device"]) << layout;
    EXPECT_FALSE(pasted.contains("what_spreads_the_kv_cache"));
    EXPECT_THAT(outcome(request).out, AllOf(HasSubstr("'" + key + "' spreads the rows of the KV cache over devices that hold copies now: ")));
    ++told;
  }
  EXPECT_EQ(told, 3);
  EXPECT_THAT(outcome(std::string("compile --decode") + kTensor).out, Not(HasSubstr("spreads the rows")));
  EXPECT_THAT(outcome(small + "model_name=mixtral-8x7b compile_topology=h100-8 custom_mesh_and_rule=ep-tp ici_expert_parallelism=8 "
                              "ici_fsdp_parallelism=1").out,
              Not(HasSubstr("spreads the rows"))) << "the rules of a set stay";
}

// Every model is planned or refused for what it is, and small ones with layers written out too.
TEST(CompileDecoding, PlansEveryModel) {
  const std::vector<std::pair<std::string, std::string>> refused{{"deepseek3-671b-batchsplit", "shard_mode=explicit: the operands"},
                                                   {"-t", "does not divide over"},  // tiny and test models
                                                   {"gpt3-52k", "does not divide over"}};
  for (const std::string& model : config::builtin_names("models")) {
    for (const std::string stage : {"--decode", "--prefill", "--decode scan_layers=false"}) {
      if (stage.size() > 10 && model.find("7b") == std::string::npos) continue;
      const Outcome made = outcome(fmt::format("compile {} model_name={} compile_topology=h100-64 per_device_batch_size=1", stage, model));
      const auto why = std::find_if(refused.begin(), refused.end(),
                                    [&](const auto& of) { return model.find(of.first) != std::string::npos && made.code != 0; });
      if (why == refused.end()) EXPECT_EQ(made.code, 0) << model << " " << stage << ": " << made.err;
      else EXPECT_THAT(made.err, HasSubstr(why->second)) << model << " " << stage;
    }
  }
}

TEST(CompileDecoding, WritesAllOfItAsJson) {
  const Json json = json_of(std::string("compile --decode --json") + kTensor);
  const Json& decoding = json["decoding"];
  EXPECT_EQ(decoding["rows"], 8);
  EXPECT_EQ(decoding["new_tokens"], 1);
  EXPECT_TRUE(json["mfu"].is_null()) << "model FLOPs are those of training";
  EXPECT_EQ(decoding["cache_slots"], 4096);
  EXPECT_NEAR(decoding["tokens_per_second"].get<double>() * json["seconds_per_step"].get<double>(), 8, 1e-9);
  EXPECT_NEAR(json["tokens_per_second_per_device"].get<double>() * json["seconds_per_step"].get<double>(), 1, 1e-9);
  EXPECT_EQ(decoding["most_rows"].get<double>(), 8 * decoding["most_per_device_batch_size"].get<double>());
  std::int64_t bytes = 0;
  for (const Json& tensor : decoding["kv_cache"]["tensors"]) bytes += tensor["bytes_per_device"].get<std::int64_t>();
  EXPECT_EQ(decoding["kv_cache"]["bytes_per_device"], bytes);
  EXPECT_EQ(json["memory_per_device"]["components"]["KV cache"], bytes);
  EXPECT_EQ(decoding["kv_cache"]["tensors"][0]["copies"], 1);
  EXPECT_FALSE(json["collectives"]["list"].empty());
  EXPECT_FALSE(json_of(std::string("compile --json") + kTensor + " per_device_batch_size=8").contains("decoding"));
}

TEST(CompileDecoding, SetsTwoLayoutsSideBySide) {
  const Outcome made = outcome(std::string("compile --decode") + kTensor + kExpertTensor);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out,
              AllOf(HasSubstr("\na token "), HasSubstr("\nrows that fit "), HasSubstr("\n  KV cache "), HasSubstr("as expert=8, ep-tp")));
  const Json json = json_of(std::string("compile --decode --json") + kTensor + kExpertTensor);
  EXPECT_EQ(json["before"]["decoding"]["kv_cache"]["bytes_per_device"], json["after"]["decoding"]["kv_cache"]["bytes_per_device"]);
}

TEST(CompileDecoding, FitsTheTerminal) {
  for (const char* columns : {"80", "120"}) {
    const test::Variable width("COLUMNS", columns);
    for (const char* command : {"compile --decode", "compile --prefill", "shardings --decode"}) {
      for (const std::string& text : split(outcome(std::string(command) + kTensor).out, '\n'))
        EXPECT_LE(display_width(text), std::stoi(columns)) << text;
    }
  }
}

TEST(CompileDecoding, PlansPromptsOfTheirLength) {
  const std::string line = std::string("compile --prefill") + kTensor;
  EXPECT_THAT(outcome(line).out, HasSubstr("\na prompt of 64 tokens for each of 8 rows, 1 a device; "));
  const Outcome made = outcome(line + " max_prefill_predict_length=512");
  EXPECT_EQ(made.err, "");
  EXPECT_THAT(made.out, AllOf(HasSubstr("\nA prompt of 512 tokens for each of 8 rows takes "), HasSubstr("`moesh why c1 --prefill ...`")));
}

TEST(CompileDecoding, DrawsExpertsAtRandom) {
  EXPECT_THAT(outcome(std::string("compile --decode --skew 1") + kTensor + " ici_tensor_parallelism=1 ici_expert_parallelism=8").out,
              HasSubstr("Experts are drawn by Zipf's law with skew 1"));
}

TEST(CompileDecoding, WritesAPage) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/plan.html";
  const Outcome made = outcome(std::string("compile --decode") + kTensor + " --html " + path);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(test::read_text(path), AllOf(HasSubstr("moesh compile --decode"), HasSubstr("<h3>KV cache <small>4</small></h3>"),
                                           HasSubstr("a token</figcaption>"), HasSubstr(" fit at most"), Not(HasSubstr("MFU"))));
}

TEST(CompileDecoding, RefusesWhatIsOfTrainingOnly) {
  const auto error = [](const std::string& line) {
    const Outcome made = outcome(line + kTensor);
    EXPECT_EQ(made.code, 2);
    return made.err;
  };
  EXPECT_THAT(error("compile --decode --save-plan x.plan"),
              HasSubstr("--save-plan saves the plan of a training step, which `moesh train` compares with its own"));
  EXPECT_THAT(error("compile --decode --prefill"), HasSubstr("--decode and --prefill plan different steps"));
  EXPECT_THAT(error("shardings --decode --lint"), HasSubstr("--lint looks at training, not at decoding"));
  EXPECT_THAT(outcome("shardings --decode" + std::string(kTensor) + " --diff steps=2").err, HasSubstr("--diff looks at training"));
}

TEST(CompileDecoding, IsListedByHelp) {
  for (const char* command : {"compile", "why", "shardings"})
    EXPECT_THAT(outcome(std::string(command) + " --help").out, AllOf(HasSubstr("  --decode"), HasSubstr("  --prefill")));
  EXPECT_THAT(outcome("help model_call_mode").out, HasSubstr("`moesh compile --decode` plans decoding"));
}

TEST(WhyDecoding, TellsOfItsCollectivesAndItsCache) {
  const Outcome sent = outcome(std::string("why c1 --decode") + kTensor);
  ASSERT_EQ(sent.code, 0) << sent.err;
  EXPECT_THAT(sent.out, HasSubstr("\nc1: reduce-scatter over tensor, 8 devices in a group"));
  const Outcome cache = outcome(std::string("why decoder/layers/self_attention/cache/key --decode") + kTensor);
  ASSERT_EQ(cache.code, 0) << cache.err;
  EXPECT_THAT(cache.out, AllOf(HasSubstr("cache_heads"), HasSubstr("It fits: "), Not(HasSubstr("training step"))));
}

TEST(ShardingsDecoding, ListsTheCacheInsteadOfOptimizerState) {
  const Outcome made = outcome(std::string("shardings --decode") + kTensor);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("decoder/layers/self_attention/cache/key"), HasSubstr(" of KV cache = "), HasSubstr("It fits: "),
                              Not(HasSubstr("optimizer"))));
  const Outcome kept = outcome(std::string("shardings --decode --filter cache_heads") + kTensor);
  EXPECT_THAT(kept.out, AllOf(HasSubstr("cache/value"), Not(HasSubstr("wi_0"))));
  const Json json = json_of(std::string("shardings --decode --json") + kTensor);
  EXPECT_EQ(json["kv_cache"].size(), 4u);
  EXPECT_FALSE(json.contains("optimizer"));
  EXPECT_EQ(json["totals"]["kv_cache_bytes_per_device"].get<std::int64_t>(), 2 * (256 << 20) + 2 * (128 << 10));
}

// A command that is named for a collective plans the same step.
TEST(CompileDecoding, NamesCommandsThatPlanIt) {
  for (const std::string stage : {"--decode", "--prefill"}) {
    const std::string why = "why " + stage + kTensor;
    EXPECT_THAT(outcome(why + " --at decoder").out, ::testing::ContainsRegex("`moesh why c[0-9]+ " + stage + " ...` tells of one"));
    EXPECT_THAT(outcome(why + " --at xyzzyxyzzy").err, HasSubstr("fix: `moesh compile " + stage + " ... --all` lists them"));
    EXPECT_THAT(outcome(why + " c9999").err, HasSubstr("fix: `moesh compile " + stage + " ... --all` lists them"));
    const std::string alone = "why " + stage + " model_name=qwen3-0.6b compile_topology=h100-1 ";
    EXPECT_THAT(outcome(alone + "c1").err, HasSubstr("fix: `moesh compile " + stage + " ...` tells what a step takes"));
    EXPECT_THAT(outcome(alone + "--at mlp").err, HasSubstr("fix: `moesh compile " + stage + " ...` tells what a step takes"));
  }
}

// A layout is shown whether or not a step can be planned on it.
TEST(CompileDecoding, LayoutsAreShownWithoutAPlan) {
  const std::string request =
      " --decode model_name=deepseek2-16b compile_topology=mi325x-8 ici_tensor_parallelism=4 ici_fsdp_parallelism=2 "
      "shard_mode=explicit";
  for (const std::string command : {"shardings", "why token_embedder/embedding"}) {
    const Outcome made = outcome(command + request);
    EXPECT_EQ(made.code, 0) << made.err;
    EXPECT_THAT(made.out, AllOf(HasSubstr("token_embedder/embedding"), HasSubstr("No step is planned: "))) << command;
  }
}

}  // namespace
}  // namespace moesh::cli
