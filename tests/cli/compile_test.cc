// `moesh compile`, and `moesh why` for the collectives that it lists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "advice/planned.h"
#include "config/builtin.h"
#include "partition/collectives.h"
#include "tests/cli/json_outcome.h"
#include "tests/support.h"

namespace moesh::cli {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A mixture of experts with two layers.
constexpr const char* kCompiled =
    " model_name=mixtral-8x7b override_model_config=true base_num_decoder_layers=2 max_target_length=512 "
    "per_device_batch_size=2 "
    "compile_topology=v5p-16 ici_fsdp_parallelism=2 ici_expert_parallelism=4";

TEST(Compile, TellsMemoryTimeAndCollectives) {
  const Outcome made = outcome(std::string("compile") + kCompiled);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out,
              AllOf(HasSubstr("mixtral-8x7b on v5p-16: 8 devices as fsdp=2 x expert=4, default rules\n"),
                    HasSubstr("\nIt fits: "), HasSubstr(" of 95.7 GiB at the peak, "), HasSubstr("\nA step takes "),
                    HasSubstr(" tokens/s a device, "), HasSubstr("memory of a device at the peak"),
                    HasSubstr("\noptimizer state "), HasSubstr("The peak is "), HasSubstr("\nc1"),
                    HasSubstr("A device sends "), HasSubstr("\nproducts ")));
  EXPECT_THAT(made.out, AllOf(HasSubstr(" parameters, "), HasSubstr(" active\n"), HasSubstr(" TFLOP/s a device, "),
                              HasSubstr("% of the peak FLOP/s (MFU)."), HasSubstr("\nOn the critical path of the step: ")));
  EXPECT_THAT(made.out, AllOf(HasSubstr("  sent a run "), HasSubstr("\nsent in a step "), HasSubstr("\nall-gather ")));
}

// A gather's operand is one shard, of which a device sends all others; a reduce-scatter's operand is the whole value.
TEST(Compile, TellsWhatADeviceSends) {
  const std::string line = "compile model_name=llama2-7b compile_topology=v5p-16 ici_fsdp_parallelism=8";
  const Json json = json_of(line + " --json");
  double sent = 0, critical = 0, listed = 0;
  for (const Json& one : json["collectives"]["list"]) {
    const double bytes = one["sent_bytes"], operand = one["operand_bytes"];
    const bool is_gather = one["kind"] == "all-gather", is_scatter = one["kind"] == "reduce-scatter";
    EXPECT_TRUE(is_gather || is_scatter || one["kind"] == "all-reduce") << one;
    EXPECT_DOUBLE_EQ(bytes, is_gather ? 7 * operand : is_scatter ? operand * 7 / 8 : 2 * operand * 7 / 8);
    EXPECT_DOUBLE_EQ(one["total_sent_bytes"].get<double>(), bytes * one["count"].get<double>());
    sent += one["total_sent_bytes"].get<double>();
    listed += one["critical_seconds"].get<double>();
  }
  EXPECT_NEAR(json["sent_bytes_per_device"].get<double>(), sent, 1e-6 * sent);
  double of_kinds = 0, of_axes = 0;
  for (const auto& [kind, total] : json["collectives"]["totals"].items()) {
    of_kinds += total["sent_bytes"].get<double>();
    for (const auto& [axes, part] : total["by_axes"].items()) of_axes += part["sent_bytes"].get<double>();
  }
  EXPECT_NEAR(of_kinds, sent, 1e-6 * sent);
  EXPECT_NEAR(of_axes, sent, 1e-6 * sent);
  for (const auto& [what, seconds] : json["critical_path_seconds"].items()) critical += seconds.get<double>();
  EXPECT_NEAR(critical, json["seconds_per_step"].get<double>(), 1e-6);
  EXPECT_NEAR(json["critical_path_seconds"]["collectives"].get<double>(), listed, 1e-9);
  const std::string name = json["collectives"]["list"][0]["name"];
  EXPECT_EQ(json_of("why " + name + line.substr(7) + " --json")["sent_bytes"], json["collectives"]["list"][0]["sent_bytes"]);
}

TEST(Compile, WritesWhatItsHeadingSaysAsJson) {
  const Json json = json_of(std::string("compile --json") + kCompiled);
  EXPECT_EQ(json["model"], "mixtral-8x7b");
  EXPECT_EQ(json["machine"], "v5p-16");
  EXPECT_EQ(json["slices"], 1);
  EXPECT_EQ(json["devices"], 8);
  EXPECT_EQ(json["layout"], "fsdp=2 x expert=4, default rules");
  EXPECT_EQ(json["batch"]["rows"], 16);
  EXPECT_GT(json["parameters"].get<double>(), 2.5 * json["active_parameters"].get<double>());
  const double peak = 459e12;  // of a v5p in bfloat16
  EXPECT_NEAR(json["tflops_per_second_per_device"].get<double>(), json["mfu"].get<double>() * peak / 1e12, 1e-6 * peak / 1e12);
  EXPECT_FALSE(json.contains("mfu_is_of_the_peak_of"));
  const Json decodes = json_of(std::string("compile --decode --json") + kCompiled);
  EXPECT_EQ(decodes["active_parameters"], json["active_parameters"]);
}

// Products in fp8 may be faster than the peak that MFUs are of.
TEST(Compile, TellsWhichPeakTheMfuIsOf) {
  const std::string line = "compile model_name=llama3-8b compile_topology=h100-8 ici_fsdp_parallelism=8 quantization=fp8_full";
  EXPECT_THAT(outcome(line).out, HasSubstr("% of the peak FLOP/s of bfloat16 (MFU)."));
  EXPECT_EQ(json_of(line + " --json")["mfu_is_of_the_peak_of"], "bfloat16");
}

// A figure that a hardware file of the user's leaves out.
TEST(Compile, NotesThatProductsAreTimedAtAnotherRate) {
  const test::TemporaryFolder folder;
  std::string text(config::find_builtin("hardware/h100.yml")->text);
  const std::string whole = folder.write("whole.yml", text);
  text.erase(text.find("bf16_flops_per_second:"), text.find('\n', text.find("bf16_flops_per_second:")) - text.find("bf16_flops_per_second:"));
  const std::string lacking = folder.write("lacking.yml", text), request = "compile model_name=qwen3-0.6b max_target_length=256 compile_topology=";
  const std::string note = " has no bf16_flops_per_second: products in bfloat16 are timed at its rate of float32";
  EXPECT_THAT(outcome(request + lacking + ":8").err, HasSubstr(note));
  EXPECT_THAT(outcome(request + whole + ":8").err, Not(HasSubstr(note)));
  EXPECT_THAT(outcome(request + lacking + ":8 dtype=float32").err, Not(HasSubstr(note)));
}

TEST(Compile, TakesThePrecisionOfProductsIntoAccount) {
  const std::string request = "model_name=qwen3-0.6b opt_type=muon max_target_length=256 ";
  const auto seconds = [&](const std::string& words) { return json_of("compile --json " + request + words)["seconds_per_step"].get<double>(); };
  EXPECT_LT(1.2 * seconds("compile_topology=v5p-8"), seconds("compile_topology=v5p-8 matmul_precision=highest"));
  EXPECT_EQ(seconds("compile_topology=mi355x-8"), seconds("compile_topology=mi355x-8 matmul_precision=highest"));
  EXPECT_THAT(outcome("compile " + request + "compile_topology=mi355x-8 matmul_precision=highest").err,
              HasSubstr("without effect on mi355x-8: matmul_precision (products of float32 have one rate there)"));
  EXPECT_THAT(outcome("compile " + request + "compile_topology=v5p-8 matmul_precision=highest").err, Not(HasSubstr("matmul_precision")));
}

TEST(Compile, FitsTheTerminal) {
  for (const char* columns : {"80", "120"}) {
    const test::Variable width("COLUMNS", columns);
    for (const std::string more : {"", " --diff ici_fsdp_parallelism=8 ici_expert_parallelism=1"}) {
      for (const std::string& line : split(outcome(std::string("compile") + kCompiled + more).out, '\n')) {
        EXPECT_LE(display_width(line), std::stoi(columns)) << line;
      }
    }
    for (const std::string& line : split(outcome(std::string("why c3") + kCompiled).out, '\n'))
      EXPECT_LE(display_width(line), std::stoi(columns)) << line;
  }
}

TEST(Compile, WritesTheNamesOfRecordedSteps) {
  const Json json = json_of(std::string("compile --json") + kCompiled);
  const Json& memory = json["memory_per_device"];
  EXPECT_GE(memory["argument"].get<std::int64_t>(), memory["alias"].get<std::int64_t>());
  EXPECT_EQ(memory["peak"].get<std::int64_t>(), memory["argument"].get<std::int64_t>() +
                                                    memory["output_not_aliased"].get<std::int64_t>() +
                                                    memory["temp"].get<std::int64_t>());
  EXPECT_GT(json["seconds_per_step"].get<double>(), 0);
  EXPECT_NEAR(json["tokens_per_second_per_device"].get<double>() * json["seconds_per_step"].get<double>(), 2 * 512,
              1e-6);
  EXPECT_TRUE(json["fits"].get<bool>());
  EXPECT_EQ(json["mesh"]["expert"], 4);
  EXPECT_NEAR(json["kernel_seconds"].get<double>() + json["exposed_seconds"].get<double>(),
              json["seconds_per_step"].get<double>(), 1e-9);
  double exposed = 0;
  std::map<std::string, std::int64_t> counts;
  for (const Json& sent : json["collectives"]["list"]) {
    for (const char* key :
         {"name", "kind", "axes", "group", "count", "operand_bytes", "cause", "seconds", "exposed_seconds"}) {
      EXPECT_TRUE(sent.contains(key)) << key;
    }
    EXPECT_EQ(sent.contains("bound_bytes"), sent["kind"] == "ragged-all-to-all") << sent;
    exposed += sent["exposed_seconds"].get<double>();
    counts[sent["kind"]] += sent["count"].get<std::int64_t>();
  }
  EXPECT_NEAR(exposed, json["exposed_seconds"].get<double>(), 1e-9);
  ASSERT_TRUE(counts.contains("ragged-all-to-all"));
  for (const auto& [kind, count] : counts) EXPECT_EQ(json["collectives"]["totals"][kind]["count"], count) << kind;
}

// The bytes listed for the collectives equal those of the collectives in the partitioned graph.
TEST(Compile, ListsWhatTheGraphSends) {
  const advice::Planned planned = advice::plan_step(test::words_of(kCompiled));
  double listed = 0, known = 0;
  for (const forecast::Sent& sent : planned.step.forecast.collectives) listed += sent.what.total_wire_bytes();
  for (const partition::Collective& c : partition::collectives_of(planned.step.program.graph, planned.session.mesh))
    known += c.total_wire_bytes();
  EXPECT_DOUBLE_EQ(listed, known);
}

TEST(Compile, SetsTwoPlansSideBySide) {
  const std::string line =
      std::string("compile") + kCompiled +
      " per_device_batch_size=11 max_target_length=2048 sparse_matmul=false capacity_factor=1.25 --diff "
      "moe_dispatch_no_expert_sharding=true";
  const Outcome made = outcome(line);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out,
              AllOf(HasSubstr("before: mixtral-8x7b"), HasSubstr("after:  mixtral-8x7b"),
                    HasSubstr("memory at the peak"), HasSubstr("collectives that differ"), HasSubstr("\nall-to-all")));
  const Json json = json_of(line + " --json");
  const auto gathered = [&](const char* side) {
    return json[side]["collectives"]["totals"]["all-gather"]["operand_bytes"].get<std::int64_t>();
  };
  EXPECT_GT(gathered("before"), 2 * gathered("after"));
  const Outcome same = outcome(std::string("compile") + kCompiled + " --diff steps=3");
  EXPECT_THAT(same.out, HasSubstr("Collectives are the same."));
  const Outcome slower = outcome(std::string("compile") + kCompiled + " --diff router_skew=1");
  EXPECT_THAT(slower.out, HasSubstr("collectives that differ")) << "as many bytes, which take longer";
}

TEST(Compile, SaysWhichOfTwoPlansFitsNarrowly) {
  const Outcome made = outcome(
      "compile model_name=llama2-7b compile_topology=v5e-8 per_device_batch_size=1 gradient_accumulation_steps=2 max_target_length=1024 "
      "--diff per_device_batch_size=2 gradient_accumulation_steps=1");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, ::testing::ContainsRegex("\nit fits +narrowly +yes"));
}

// The time that a step waits for values in the host's memory has a line of its own, so that the parts add up to the total.
TEST(Compile, SetsWaitsForTheHostSideBySide) {
  const Outcome made = outcome(
      "compile model_name=llama3-8b compile_topology=b200-8 ici_fsdp_parallelism=8 per_device_batch_size=2 max_target_length=4096 "
      "remat_policy=minimal --diff remat_policy=minimal_offloaded");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, ::testing::ContainsRegex("waits for the host +0.00 ms +[0-9]+ ms"));
  EXPECT_THAT(made.out, ::testing::ContainsRegex("in the host's memory +0 B +[0-9.]+ GiB"));
}

// 0 would be read as a time or a share.
TEST(Compile, WritesWhatIsNotKnownAsNull) {
  const auto json = [](const std::string& machine) {
    return json_of("compile model_name=llama3-8b ici_fsdp_parallelism=8 remat_policy=minimal_offloaded --json compile_topology=" + machine);
  };
  const Json known = json("b200-8"), unknown = json("v6e-8");
  EXPECT_GT(known["host_memory"]["seconds_each_way"].get<double>(), 0);
  EXPECT_GT(unknown["host_memory"]["bytes"].get<std::int64_t>(), 0);
  EXPECT_TRUE(unknown["host_memory"]["seconds_each_way"].is_null());
  EXPECT_GT(unknown["mfu"].get<double>(), 0);
}

TEST(Compile, TellsWhatWouldMakeItFit) {
  const std::string large =
      "compile model_name=mixtral-8x7b compile_topology=v5p-16 ici_fsdp_parallelism=2 ici_expert_parallelism=4 "
      "per_device_batch_size=4";
  const Outcome made = outcome(large);
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("It does not fit: "), HasSubstr(" are missing."), HasSubstr("\nwhat makes it fit ")));
  const Json json = json_of(large + " --json");
  EXPECT_FALSE(json["fits"].get<bool>());
  ASSERT_FALSE(json["what_makes_it_fit"].empty());
  for (const Json& offer : json["what_makes_it_fit"]) {
    std::string words;
    for (const Json& key : offer["keys"]) words += (words.empty() ? "" : " ") + key.get<std::string>();
    EXPECT_THAT(made.out, HasSubstr("\n" + words + " "));
    EXPECT_TRUE(offer["fits"].get<bool>());
    EXPECT_LE(offer["peak_bytes_per_device"].get<std::int64_t>(), offer["usable_bytes"].get<std::int64_t>());
  }
  // The suggestions hold: the larger topology does make the step fit.
  EXPECT_THAT(made.out, HasSubstr("\nnum_moe_token_chunks=2 (fits narrowly) "));
  EXPECT_THAT(made.out, HasSubstr("weight_dtype=bfloat16 (the losses differ) "));
  EXPECT_THAT(made.out, HasSubstr("\ncompile_topology=v5p-32 ici_fsdp_parallelism=4 "));
  EXPECT_TRUE(json_of(large + " --json compile_topology=v5p-32 ici_fsdp_parallelism=4")["fits"].get<bool>());
}

TEST(Compile, SaysWhereNothingMakesItFit) {
  const Outcome made =
      outcome("compile model_name=deepseek3-671b compile_topology=v5e-4 per_device_batch_size=1 max_target_length=512");
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("It does not fit: "), HasSubstr("makes it fit on as many devices; the nearest comes ")));
  const Json json = json_of("compile --json model_name=deepseek3-671b compile_topology=v5e-4 per_device_batch_size=1 max_target_length=512");
  EXPECT_GT(json["nearest"]["peak_bytes_per_device"].get<std::int64_t>(), json["nearest"]["usable_bytes"].get<std::int64_t>());
}

TEST(Compile, SavesThePlanThatTrainingRuns) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/a.plan";
  const std::string request =
      " model_name=mixtral-8x7b override_model_config=true base_emb_dim=16 base_num_query_heads=2 base_num_kv_heads=2 head_dim=8 "
      "base_mlp_dim=16 base_moe_mlp_dim=16 base_num_decoder_layers=1 vocab_size=32 max_target_length=16 per_device_batch_size=1 "
      "compile_topology=cpu-2 ici_expert_parallelism=2 ici_fsdp_parallelism=1";
  const Outcome made = outcome("compile" + request + " --save-plan " + path);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("\nThe plan is in " + path));
  const std::string train = "train" + request + " steps=1 dataset_type=synthetic enable_checkpointing=false metrics_file=" +
                            folder.path() + "/m.jsonl plan=" + path;
  EXPECT_EQ(outcome(train).code, 0);
  EXPECT_EQ(outcome(train + " remat_policy=minimal").code, 2);
  const Outcome both = outcome("compile" + request + " --save-plan " + path + " --diff steps=2");
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, HasSubstr("--save-plan with --diff, which makes two plans\n  fix: save one of them"));
  EXPECT_THAT(outcome("compile model_name=default --all --diff scan_layers=false").err, HasSubstr("--all has no effect beside --diff, which shows every line that differs"));
}

TEST(Compile, RefusesMachinesThatAreNotThere) {
  const Outcome made = outcome("compile model_name=llama2-7b compile_topology=v5p-17");
  EXPECT_EQ(made.code, 2);
  EXPECT_THAT(made.err, HasSubstr("hardware 'v5p' has no size '17'"));
}

// With the flag each layer has five all-to-alls, without it none, as published for eight MI355X.
TEST(Compile, TheDispatchFlagMakesFiveAllToAllsOfALayersGathers) {
  const std::string line =
      "compile --json model_name=mixtral-8x7b ici_expert_parallelism=-1 capacity_factor=1.25 sparse_matmul=False "
      "per_device_batch_size=11 "
      "compile_topology=mi355x-8 remat_policy=minimal moe_dispatch_no_expert_sharding=";
  const Json on = json_of(line + "true"), off = json_of(line + "false");
  const auto in_layers = [](const Json& json) {
    std::int64_t count = 0;
    for (const Json& sent : json["collectives"]["list"])
      count += sent["kind"] == "all-to-all" && sent["count"] == 32 ? 1 : 0;
    return count;
  };
  EXPECT_EQ(in_layers(on), 5);
  EXPECT_EQ(in_layers(off), 0);
  EXPECT_GT(off["seconds_per_step"].get<double>(), 1.15 * on["seconds_per_step"].get<double>());
}

// The command is spelled exactly as users type it.
TEST(Compile, TakesTheReferencesCommandForOtherHardware) {
  const Json json = json_of(
      "compile --json src/maxtext/configs/base.yml model_name=deepseek3-test custom_mesh_and_rule=ep-as-cp "
      "context_sharding=expert "
      "ici_fsdp_parallelism=-1 ici_expert_parallelism=2 per_device_batch_size=1 compile_topology=tpu7x-256 "
      "compile_topology_num_slices=1");
  EXPECT_TRUE(json["fits"].get<bool>());
}

TEST(Why, TellsWhyACollectiveIsThere) {
  const Json listed = json_of("compile --json model_name=llama2-7b compile_topology=v5p-16 ici_fsdp_parallelism=8");
  std::string gather, scatter;
  for (const Json& sent : listed["collectives"]["list"]) {
    const std::string cause = sent["cause"];
    if (cause == "decoder/layers/mlp/wi_0" && gather.empty()) gather = sent["name"];
    if (cause.starts_with("decoder/layers/mlp/wi_0/") && scatter.empty()) scatter = sent["name"];
  }
  const std::string request = " model_name=llama2-7b compile_topology=v5p-16 ici_fsdp_parallelism=8";
  const Outcome why = outcome("why " + gather + request);
  ASSERT_EQ(why.code, 0) << why.err;
  EXPECT_THAT(why.out, AllOf(HasSubstr(gather + ": all-gather over fsdp, 8 devices in a group; 32 runs in a step"),
                             HasSubstr("read by decoder/layers/mlp/wi_0 (bsm,mf->bsf)"),
                             HasSubstr("chosen: [fsdp, -, -], [-, -] -> [fsdp, -, -]"), HasSubstr("next best: ")));
  const Json json = json_of("why --json " + scatter + request);
  EXPECT_EQ(json["kind"], "reduce-scatter");
  EXPECT_LT(json["made_by"]["choice"]["seconds"].get<double>(),
            json["made_by"]["choice"]["runner_up_seconds"].get<double>());
}

TEST(Why, RefusesACollectiveThatThePlanLacks) {
  const Outcome none = outcome("why c9999 model_name=llama2-7b compile_topology=v5p-16 ici_fsdp_parallelism=8");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, AllOf(HasSubstr("there is no collective c9999: this plan has c1 to c"),
                              HasSubstr("`moesh compile ... --all` lists them")));
  const Outcome alone = outcome("why c1 model_name=qwen3-0.6b compile_topology=h100-1");
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.err, HasSubstr("there is no collective c1: this plan sends nothing"));
  EXPECT_THAT(alone.err, HasSubstr("fix: `moesh compile ...` tells what a step takes"));
}

class WhyAt : public ::testing::Test {
 protected:
  static Outcome why(const std::string& at, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"why", "--at", at, "model_name=llama2-7b", "compile_topology=v5p-16", "ici_fsdp_parallelism=4", "ici_tensor_parallelism=2"};
    words.insert(words.end(), more.begin(), more.end());
    return outcome_of(words);
  }
};

TEST_F(WhyAt, ExplainsTheDearestOfThoseThatHaveAllWords) {
  const Outcome made = why("decoder/layers/mlp reduce-scatter fsdp");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr(": reduce-scatter over fsdp"), HasSubstr("\nIt moves decoder/layers/mlp/"), HasSubstr("next best: ")));
  EXPECT_THAT(made.out, HasSubstr(" from [-, tensor] +sum(fsdp) to [fsdp, tensor].")) << "the pair of specs";
  EXPECT_THAT(made.out, Not(HasSubstr("all-gather over")));
  const Json json = Json::parse(why("all-gather", {"--json"}).out);
  ASSERT_EQ(json["collectives"].size(), 3u);
  EXPECT_GT(json["others"].size(), 0u);
  EXPECT_GE(json["collectives"][0]["seconds"], json["collectives"][1]["seconds"]);
  for (const Json& one : json["collectives"]) {
    EXPECT_EQ(one["kind"], "all-gather");
    EXPECT_NE(one["from"], one["to"]);
  }
  const Outcome all = why("all-gather");
  EXPECT_THAT(all.out, AllOf(HasSubstr("\nCheaper ones: c"), HasSubstr(" ...` tells of one.")));
  for (const char* phase : {"forward", "backward"}) EXPECT_EQ(why(std::string("mlp ") + phase).code, 0);
}

TEST_F(WhyAt, NamesWhatComesNearest) {
  EXPECT_THAT(why("all-gathr").err, HasSubstr("--at: no collective's kind, axes or path holds 'all-gathr'\n  fix: did you mean all-gather?"));
  EXPECT_THAT(why("mlp tensr").err, HasSubstr("holds 'tensr'\n  fix: did you mean tensor?"));
  EXPECT_THAT(why("xyzzyxyzzy").err, HasSubstr("`moesh compile ... --all` lists them"));
  const Outcome apart = why("embedder self_attention");
  EXPECT_EQ(apart.code, 2);
  EXPECT_THAT(why("all-to-all self_attention/query").err,
              AllOf(HasSubstr("no collective has all of 'all-to-all self_attention/query': 'all-to-all' alone finds "), HasSubstr("fix: leave a word out")));
  EXPECT_THAT(why(" ").err, HasSubstr("--at names nothing"));
  EXPECT_THAT(why("mlp", {"c3"}).err, HasSubstr("--at finds collectives, so 'c3' has no place beside it"));
  EXPECT_THAT(outcome("why --at mlp model_name=qwen3-0.6b compile_topology=h100-1").err, HasSubstr("nothing is found: this plan sends nothing"));
}

// Whatever the step waits for: links that are busy with what an earlier layer sent, short layers, or the host's memory.
TEST(Compile, SharesTheCriticalPathOutToTheLastBit) {
  const std::vector<std::string> requests{
      "model_name=qwen3-8b compile_topology=v6e-8 custom_mesh_and_rule=fsdp-as-dp-for-attn weight_dtype=bfloat16 per_device_batch_size=8",
      "model_name=llama2-7b compile_topology=v6e-8 weight_dtype=bfloat16 per_device_batch_size=4",
      "model_name=llama2-7b compile_topology=v5p-128 per_device_batch_size=4",
      "model_name=qwen2.5-7b compile_topology=h100-8 per_device_batch_size=1 optimizer_memory_host_offload=true",
      "model_name=mixtral-8x7b compile_topology=mi355x-16 per_device_batch_size=2 ici_expert_parallelism=8 gradient_accumulation_steps=4",
      "model_name=deepseek2-16b compile_topology=v5p-64 compile_topology_num_slices=2 ici_expert_parallelism=4 per_device_batch_size=1",
      "model_name=deepseek3-671b compile_topology=h800-512 ici_expert_parallelism=64 per_device_batch_size=1 --decode "
      "max_target_length=512"};
  for (const std::string& request : requests) {
    const Json json = json_of("compile --json " + request);
    double seconds = 0;
    for (const auto& [what, part] : json["critical_path_seconds"].items()) seconds += part.get<double>();
    EXPECT_NEAR(seconds, json["seconds_per_step"].get<double>(), 1e-6 * seconds) << request;
  }
}

}  // namespace
}  // namespace moesh::cli
