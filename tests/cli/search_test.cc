// `moesh search`: what it reports, and what it refuses.
#include <filesystem>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tests/cli/outcome.h"
#include "tests/pages.h"
#include "tests/support.h"

namespace moesh::cli {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kSearched =
    "search model_name=llama2-7b override_model_config=true base_num_decoder_layers=2 compile_topology=v5p-8 per_device_batch_size=2 "
    "custom_mesh_and_rule=pure-fsdp ";

TEST(Search, TellsTheBestWithTheirCommands) {
  const Outcome made = outcome(kSearched + "--against remat_policy=full gradient_accumulation_steps=2");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("The best ways to train llama2-7b on Google TPU v5p that were found\n"), HasSubstr("v5p-8, 4 devices: "),
                              HasSubstr(" plans of 2 layouts made in "), HasSubstr("tokens/s a device"), HasSubstr("fsdp=4, pure-fsdp rules"),
                              HasSubstr("\n 1  ./moesh compile model_name=llama2-7b "), HasSubstr("Not tried: pipeline stages; ")));
  EXPECT_THAT(made.out, AllOf(HasSubstr("Yours is fsdp=4, pure-fsdp rules; remat_policy=full gradient_accumulation_steps=2: "),
                              HasSubstr("The fastest that was found is "), HasSubstr("\nfor 32,768 tokens "))) << "yours takes two passes";
}

TEST(Search, TellsHowMuchItDidNotTry) {
  const Outcome made = outcome(kSearched + "--most 3");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr(" not tried, as --most allows no more. Any others do not fit, or cannot be better."));
  const Json counts = Json::parse(outcome(kSearched + "--most 3 --json").out)["machines"].at(0)["counts"];
  EXPECT_LE(counts["planned"].get<int>(), 3);
  EXPECT_GT(counts["untried"].get<int>(), 0);
  const Outcome all = outcome(kSearched);
  EXPECT_THAT(all.out, AllOf(HasSubstr(": the others do not fit, or cannot be better."), Not(HasSubstr("not tried, as"))));
}

TEST(Search, SaysWhichPolicyMaxTextLacks) {
  const std::string request = "search model_name=llama3-8b compile_topology=h100-8 per_device_batch_size=1 max_target_length=2048 --most 50 ";
  const std::string told = "\nremat_policy=everything is moesh's own: MaxText has no policy that saves all.\n";
  const std::string open = outcome(request).out;
  EXPECT_THAT(open, AllOf(HasSubstr(" remat_policy=everything\n"), HasSubstr(told)));
  EXPECT_THAT(outcome(request + "remat_policy=full").out, Not(HasSubstr("moesh's own")));
}

TEST(Search, CountsPlansThatDifferFromOthers) {
  const std::string line =
      "search model_name=qwen2.5-7b compile_topology=h800-1 per_device_batch_size=1 override_model_config=true "
      "base_num_decoder_layers=2";
  const Json counts = Json::parse(outcome(line + " --json").out)["machines"].at(0)["counts"];
  EXPECT_GT(counts["same"].get<int>(), 0) << "or nothing is tested";
  EXPECT_LE(counts["planned"].get<int>(), counts["plans"].get<int>());
}

// Stages are laid out but not run, so that no plan is possible.
TEST(Search, TellsWhyNothingCanBePlanned) {
  const std::string line = "search model_name=llama2-7b compile_topology=h100-8 ici_pipeline_parallelism=2 per_device_batch_size=2 --most 20";
  const Outcome made = outcome(line);
  EXPECT_EQ(made.code, 1) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr(" turned out not to be possible, the first as "), HasSubstr(" nothing could be planned: "),
                              HasSubstr("pipeline")));
  EXPECT_THAT(Json::parse(outcome(line + " --json").out)["machines"].at(0)["first_refusal"].get<std::string>(), HasSubstr("pipeline"));
}

TEST(Search, FitsTheTerminal) {
  for (const char* columns : {"80", "120"}) {
    const test::Variable width("COLUMNS", columns);
    const std::string told = outcome(kSearched + "--against remat_policy=full").out;
    for (const std::string& line : split(told.substr(0, told.find("./moesh compile")), '\n'))
      EXPECT_LE(display_width(line), std::stoi(columns)) << line;
  }
}

// The commands in the JSON are those that were planned: compiled again, they give the same figures.
TEST(Search, WritesTheSameAsJson) {
  const Outcome made = outcome(kSearched + "--json --against remat_policy=full");
  ASSERT_EQ(made.code, 0) << made.err;
  const Json json = Json::parse(made.out);
  const Json& machine = json["machines"].at(0);
  EXPECT_EQ(machine["machine"], "v5p-8");
  EXPECT_EQ(machine["devices"], 4);
  EXPECT_GT(machine["counts"]["planned"].get<int>(), 0);
  EXPECT_EQ(json["against"]["keys"], Json::parse(R"(["remat_policy=full"])"));
  ASSERT_FALSE(machine["front"].empty());
  for (const Json& found : machine["front"]) {
    const std::string command = found["command"];
    const Json compiled = Json::parse(outcome(command.substr(command.find("compile")) + " --json").out);
    EXPECT_EQ(compiled["seconds_per_step"], found["seconds_per_step"]) << command;
    EXPECT_EQ(compiled["memory_per_device"]["peak"], found["peak_bytes_per_device"]) << command;
    EXPECT_TRUE(found["fits"].get<bool>());
  }
}

TEST(Search, TellsSpeedsAsCompileDoes) {
  const std::string told = outcome(kSearched).out;
  const Json as_json = Json::parse(outcome(kSearched + "--json").out);
  for (const Json& found : as_json["machines"].at(0)["front"]) {
    const std::string command = found["command"], compiled = outcome(command.substr(command.find("compile"))).out;
    const std::size_t end = compiled.find(" tokens/s a device"), begin = compiled.rfind(' ', end - 1);
    ASSERT_NE(end, std::string::npos) << compiled;
    EXPECT_THAT(told, HasSubstr(compiled.substr(begin, end - begin) + "  ")) << command;
  }
}

// Moments that wait in the host's memory leave room for a step that would not fit beside them.
TEST(Search, FindsWhatFitsBesideMomentsOnTheHost) {
  const std::string two = "search model_name=llama2-7b compile_topology=a100-40gb-2 custom_mesh_and_rule=pure-fsdp per_device_batch_size=1 "
                          "remat_policy=full ";
  EXPECT_EQ(outcome(two).code, 1);
  const Outcome made = outcome(two + "optimizer_memory_host_offload=true");
  EXPECT_EQ(made.code, 0) << made.out;
  EXPECT_THAT(made.out, HasSubstr("fsdp=2, pure-fsdp rules"));
}

TEST(Search, WritesAPageOfTheBest) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/best.html";
  const Outcome made = outcome(kSearched + "--html " + path);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("The page is in " + path));
  const std::string page = test::read_text(path);
  test::expect_well_formed(page);
  EXPECT_THAT(page, AllOf(HasSubstr("The best ways to train llama2-7b on Google TPU v5p that were found"), HasSubstr("fastest"),
                          HasSubstr("least memory"), HasSubstr("./moesh compile model_name=llama2-7b")));
  outcome(kSearched + "--against remat_policy=full --html " + path);
  EXPECT_THAT(test::read_text(path), AllOf(HasSubstr("fastest"), HasSubstr("yours")));
  const Outcome none = outcome("search model_name=llama2-70b compile_topology=v5e-4 --html " + folder.path() + "/none.html");
  EXPECT_THAT(none.out, HasSubstr("No page is written: nothing fits."));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/none.html"));
}

TEST(Search, PutsTheLeastMemoryFirstWhereThatIsWanted) {
  const auto peaks_of = [](const std::string& more) {
    std::vector<std::int64_t> peaks;
    const Json json = Json::parse(outcome(kSearched + "--json " + more).out);
    for (const Json& found : json["machines"].at(0)["front"]) peaks.push_back(found["peak_bytes_per_device"]);
    return peaks;
  };
  const auto first_row = [](const std::string& more) {
    for (const std::string& line : split(outcome(kSearched + more).out, '\n')) {
      if (line.starts_with("1  ")) return line;
    }
    return std::string();
  };
  const std::vector<std::int64_t> peaks = peaks_of("--objective memory");
  ASSERT_GT(peaks.size(), 1u);
  EXPECT_LE(*std::min_element(peaks.begin(), peaks.end()), peaks_of("").back());
  EXPECT_THAT(first_row("--objective memory"), HasSubstr(human_bytes(peaks.back())));
  EXPECT_NE(first_row(""), first_row("--objective memory"));
}

TEST(Search, FindsTheSmallestMachine) {
  const std::string large = "search model_name=llama2-7b custom_mesh_and_rule=pure-fsdp compile_topology=v5p-8 per_device_batch_size=1 ";
  const Outcome made = outcome(large + "--devices 1..64");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("v5p-8, 4 devices: "));
  EXPECT_THAT(outcome(large + "--devices 8..64").out, HasSubstr("\n 1  ./moesh compile model_name=llama2-7b custom_mesh_and_rule=pure-fsdp "
                                                               "per_device_batch_size=1 compile_topology=v5p-16"));
  const Outcome small = outcome("search model_name=llama2-7b custom_mesh_and_rule=pure-fsdp compile_topology=v5e-4 per_device_batch_size=1 "
                                "max_target_length=512 --objective devices");
  EXPECT_EQ(small.code, 0) << small.err;
  EXPECT_THAT(small.out, AllOf(HasSubstr("v5e-1, 1 device: nothing fits: parameters and moments alone take "), HasSubstr("v5e-8, 8 devices: ")));
}

TEST(Search, TellsTheNearestWhereNothingFits) {
  const Outcome state = outcome("search model_name=llama2-70b compile_topology=v5e-4");
  EXPECT_EQ(state.code, 1);
  EXPECT_THAT(state.out, HasSubstr("On v5e-4, 4 devices nothing fits: parameters and moments alone take "));
  const Outcome step = outcome("search model_name=llama2-7b compile_topology=v5e-8 custom_mesh_and_rule=pure-fsdp max_target_length=131072 "
                               "per_device_batch_size=1");
  EXPECT_EQ(step.code, 1);
  EXPECT_THAT(step.out, AllOf(HasSubstr("nothing fits; the nearest takes "), HasSubstr(" too much: fsdp=8, pure-fsdp rules")));
}

// The model and the rows of a step are those of the other program's command; its layout is compared with what is found.
TEST(Search, SearchesForAnotherProgramsJob) {
  const std::string job =
      "--num-layers 4 --hidden-size 1024 --ffn-hidden-size 4096 --num-attention-heads 16 --swiglu --untie-embeddings-and-output-weights "
      "--normalization RMSNorm --seq-length 1024 --max-position-embeddings 1024 --vocab-size 32000 --bf16 --micro-batch-size 1 "
      "--global-batch-size 64 --tensor-model-parallel-size 4";
  const auto searched = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"search", "--json", "--from", "megatron", job, "compile_topology=h100-8"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome made = outcome_of(words);
    EXPECT_EQ(made.code, 0) << made.err;
    return Json::parse(made.out);
  };
  const Json found = searched({"--most", "300"});
  EXPECT_THAT(found["against"].dump(), HasSubstr("reduce_gradients=once")) << "as other keys of the job's own layout";
  const Json yours = Json::parse(outcome_of({"compile", "--json", "--from", "megatron", job, "compile_topology=h100-8"}).out);
  EXPECT_EQ(found["against"]["seconds_per_step"], yours["seconds_per_step"]);
  EXPECT_EQ(found["against"]["peak_bytes_per_device"], yours["memory_per_device"]["peak"]);
  const Json& best = found["machines"].at(0)["front"].at(0);
  EXPECT_LT(best["seconds_per_step"].get<double>(), yours["seconds_per_step"].get<double>());
  const auto tokens = [](const Json& step) {
    const double rate = step["tokens_per_second_per_device"];
    return rate * step["seconds_per_step"].get<double>();
  };
  EXPECT_NEAR(tokens(best), 64 * 1024 / 8.0, 1) << "as many rows a step";
  EXPECT_NEAR(tokens(yours), 64 * 1024 / 8.0, 1);
  const Json fixed = searched({"--most", "300", "ici_tensor_parallelism=2", "--against", "remat_policy=full"});
  EXPECT_EQ(fixed["against"]["keys"], Json::parse(R"(["remat_policy=full"])"));
  for (const Json& one : fixed["machines"].at(0)["front"]) {
    EXPECT_THAT(one["command"].get<std::string>(), HasSubstr(" ici_tensor_parallelism=2 "));
  }
}

// Stages are laid out but not run, so that there is nothing to compare with.
TEST(Search, GoesOnWhereTheJobItselfIsNotPlanned) {
  const Outcome made = outcome_of({"search", "--most", "50", "--from", "megatron",
                                   "--num-layers 4 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings "
                                   "1024 --vocab-size 32000 --micro-batch-size 1 --global-batch-size 64 --pipeline-model-parallel-size 2",
                                   "compile_topology=h100-8"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("the job's own layout is not compared: "));
  EXPECT_THAT(made.out, AllOf(HasSubstr("\n 1  ./moesh compile "), Not(HasSubstr("Yours is "))));
  EXPECT_THAT(made.out, HasSubstr("The best ways to train the job of megatron on NVIDIA H100"));
}

TEST(Search, SearchesForWaysToDecode) {
  const std::string line =
      "search --decode model_name=llama2-7b override_model_config=true base_num_decoder_layers=2 compile_topology=v5p-8 "
      "custom_mesh_and_rule=pure-fsdp ";
  const Outcome made = outcome(line);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("The best ways to decode with llama2-7b on Google TPU v5p that were found\n"),
                              HasSubstr("\n 1  ./moesh compile --decode model_name=llama2-7b "), HasSubstr("a step of")));
  const Json json = Json::parse(outcome(line + "--json --against per_device_batch_size=1").out);
  std::vector<Json> told = json["machines"].at(0)["front"];
  told.push_back(json["against"]);
  ASSERT_GT(told.size(), 2u);
  for (const Json& found : told) {
    const std::string command = found["command"];
    const Json compiled = Json::parse(outcome(command.substr(command.find("compile")) + " --json").out);
    EXPECT_EQ(compiled["seconds_per_step"], found["seconds_per_step"]) << command;
    EXPECT_EQ(compiled["memory_per_device"]["peak"], found["peak_bytes_per_device"]) << command;
    EXPECT_EQ(compiled["decoding"]["rows"], found["tokens_per_step"]) << command;
  }
  const test::TemporaryFolder folder;
  const std::string page = folder.path() + "/best.html";
  ASSERT_EQ(outcome(line + "--html " + page).code, 0);
  test::expect_well_formed(test::read_text(page));
  EXPECT_THAT(test::read_text(page), AllOf(HasSubstr("shortest step"), HasSubstr("moesh compile --decode model_name=llama2-7b")));
  const Outcome none = outcome("search --decode model_name=llama2-70b compile_topology=v5e-4");
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.out, HasSubstr("nothing fits: parameters alone take "));
  EXPECT_THAT(outcome(line + "--prefill").err, HasSubstr("--decode and --prefill plan different steps"));
  EXPECT_THAT(outcome(line + "quantization=int8").err, HasSubstr("are planned for training steps only"));
}

// The user's layout stays on its machine, though the best is found on a smaller one.
TEST(Search, ComparesALayoutOfALargerMachine) {
  const test::TemporaryFolder folder;
  const std::string page = folder.path() + "/best.html";
  const Outcome made = outcome(
      "search --decode model_name=llama2-7b override_model_config=true base_num_decoder_layers=2 "
      "compile_topology=v5p-16 custom_mesh_and_rule=pure-fsdp per_device_batch_size=1 --devices 1..8 "
      "--against ici_fsdp_parallelism=8 --json --html " +
      page);
  ASSERT_EQ(made.code, 0) << made.err;
  const Json json = Json::parse(made.out);
  EXPECT_LT(json["machines"].back()["devices"].get<int>(), 8);
  EXPECT_THAT(json["against"]["command"].get<std::string>(), HasSubstr(" compile_topology=v5p-16 "));
  EXPECT_THAT(test::read_text(page), AllOf(HasSubstr("yours"), HasSubstr("compile_topology=v5p-16")));
}

TEST(Search, RefusesWhatCannotBe) {
  const auto error = [](const std::string& line) {
    const Outcome made = outcome("search " + line);
    EXPECT_EQ(made.code, 2) << line;
    return made.err;
  };
  EXPECT_THAT(error("model_name=llama2-7b"), AllOf(HasSubstr("a search needs a machine"), HasSubstr("compile_topology=KIND-SIZE")));
  const std::string model = "model_name=llama2-7b compile_topology=v5e-8 ";
  EXPECT_THAT(error(model + "--objective speed"), HasSubstr("'speed' is no objective: time, memory or devices was expected"));
  for (const char* range : {"8", "8..", "..8", "16..8", "0..4", "1..x", "1..1000000"})
    EXPECT_THAT(error(model + "--devices " + range), HasSubstr("' is no range of devices: N..M with 1 <= N <= M <= 65536 was expected")) << range;
  EXPECT_THAT(error(model + "--devices 9..15"), HasSubstr("no machine like v5e-8 has 9 to 15 devices"));
  EXPECT_THAT(error(model + "--most 0"), HasSubstr("--most"));
  EXPECT_THAT(error(model + "--against ici_fsdp_parallelism=3"), HasSubstr("ici_fsdp_parallelism"));
}

}  // namespace
}  // namespace moesh::cli
