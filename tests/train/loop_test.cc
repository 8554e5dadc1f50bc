// `moesh train` as a whole command: what it prints, what it writes, and how it ends.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sys/wait.h>

#include <gmock/gmock.h>

#include "tests/paths.h"
#include "tests/train/train_support.h"
#include "tests/train/trainer_support.h"
#include "train/loop.h"
#include "train/model_size.h"

namespace moesh::train {
namespace {

using nlohmann::json;
using test::kTinyMixtral;
using test::kTinyModel;
using test::Outcome;
using test::TemporaryFolder;
using test::metrics_in;
using test::train_with;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

TEST(Train, WritesTheMetricsOfEveryStep) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/deep/er/m.jsonl";
  const Outcome outcome =
      train_with(kTinyMixtral + "steps=5 learning_rate=0.02 load_balance_loss_weight=0.1 metrics_file=" + path);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<json> metrics = metrics_in(path);
  ASSERT_EQ(metrics.size(), 5u);
  const config::Settings settings = config::load(test::words_of("steps=5 learning_rate=0.02")).settings;
  for (std::size_t step = 0; step < metrics.size(); ++step) {
    const json& of = metrics[step];
    std::vector<std::string> keys;
    std::set<std::string> of_reference;
    for (const auto& [key, value] : of.items()) {
      if (key.find('/') == std::string::npos) keys.push_back(key);
      else of_reference.insert(key);
    }
    EXPECT_THAT(keys, UnorderedElementsAre("step", "seconds", "data_seconds", "learning_rate", "per_device_tflops_per_sec",
                                           "per_device_tokens_per_sec", "perplexity", "loss", "lm_loss", "moe_lb_loss",
                                           "total_weights", "raw_grad_norm", "grad_norm", "param_norm", "moe"));
    EXPECT_EQ(of_reference,
              (std::set<std::string>{"learning/loss", "learning/lm_loss", "learning/perplexity", "learning/z_loss", "learning/moe_lb_loss",
                                     "learning/total_weights", "learning/raw_grad_norm", "learning/grad_norm", "learning/param_norm",
                                     "learning/current_learning_rate", "perf/step_time_seconds", "perf/per_device_tflops",
                                     "perf/per_device_tflops_per_sec", "perf/per_device_tokens", "perf/per_device_tokens_per_sec"}));
    for (const char* name : {"loss", "lm_loss", "perplexity", "moe_lb_loss", "total_weights", "raw_grad_norm", "grad_norm", "param_norm"})
      EXPECT_EQ(of[name], of[std::string("learning/") + name]) << name;
    EXPECT_EQ(of["step"], step);
    EXPECT_EQ(of["learning_rate"].get<double>(), learning_rate(settings, static_cast<std::int64_t>(step)));
    EXPECT_EQ(of["total_weights"], 14);
    EXPECT_GT(of["seconds"].get<double>(), 0);
    EXPECT_GT(of["per_device_tflops_per_sec"].get<double>(), 0);
    EXPECT_GT(of["per_device_tokens_per_sec"].get<double>() * of["seconds"].get<double>(), 0.9);
    EXPECT_NEAR(of["perplexity"].get<double>(), std::exp(of["lm_loss"].get<double>()), 1e-3);
    EXPECT_NEAR(of["loss"].get<double>(), of["lm_loss"].get<double>() + of["moe_lb_loss"].get<double>(), 1e-6);
    EXPECT_NEAR(of["grad_norm"].get<double>(), std::min(1.0, of["raw_grad_norm"].get<double>()), 1e-5);
  }
  EXPECT_LT(metrics[4]["loss"].get<double>(), metrics[0]["loss"].get<double>());
}

// Every choice of every token is counted once, and the busiest expert is the one with the most tokens.
TEST(Train, CountsWhatTheExpertsGet) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/m.jsonl";
  const std::string words = kTinyMixtral + "num_experts=4 steps=2 sparse_matmul=true compile_topology=cpu-4 ici_fsdp_parallelism=2 ici_expert_parallelism=2 "
                            "per_device_batch_size=1 metrics_file=" + path;
  for (const std::string skew : {"0", "3"}) {
    const Outcome outcome = train_with(words + " router_skew=" + skew);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json moe = metrics_in(path).back()["moe"];
    const config::Settings settings = config::load(test::words_of(words)).settings;
    const auto choices = static_cast<double>(4 * settings.integer("max_target_length") * settings.integer("num_experts_per_tok"));
    ASSERT_EQ(moe["tokens"].size(), moe["dropped"].size());
    for (std::size_t layer = 0; layer < moe["tokens"].size(); ++layer) {
      double sum = 0, most = 0;
      for (const double tokens : moe["tokens"][layer].get<std::vector<double>>()) {
        sum += tokens;
        most = std::max(most, tokens);
      }
      EXPECT_EQ(sum, choices);
      EXPECT_NEAR(moe["max_over_mean"][layer].get<double>(), most * static_cast<double>(moe["tokens"][layer].size()) / sum, 1e-9);
      EXPECT_EQ(moe["dropped"][layer], 0);
      if (skew == "3") {
        EXPECT_EQ(moe["tokens"][layer][0], most);
      }
    }
    EXPECT_EQ(moe["bytes_sent_by_device"].size(), 4u);
    EXPECT_NE(outcome.out.find("Experts in the last step: the busiest of a layer had "), std::string::npos) << outcome.out;
  }
}

// With capacity slots, tokens reach the experts by what the partitioner derives, which is not counted by itself.
TEST(Train, TellsWhatIsSentToExpertsOnlyWhereItIsCounted) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/m.jsonl";
  const std::string words = kTinyMixtral + "num_experts=4 steps=1 compile_topology=cpu-2 ici_fsdp_parallelism=1 ici_expert_parallelism=2 "
                            "per_device_batch_size=1 metrics_file=" + path + " ";
  const auto tells = [&](const std::string& strategy) {
    const Outcome outcome = train_with(words + strategy);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const bool is_told = outcome.out.find("\nSent to and from them: ") != std::string::npos;
    EXPECT_EQ(metrics_in(path).back()["moe"].contains("bytes_sent_by_device"), is_told) << strategy;
    return is_told;
  };
  EXPECT_TRUE(tells("sparse_matmul=true"));
  EXPECT_TRUE(tells("sparse_matmul=true use_ring_of_experts=true"));
  EXPECT_FALSE(tells("sparse_matmul=false capacity_factor=1.25 moe_dispatch_no_expert_sharding=true"));
  EXPECT_FALSE(tells("sparse_matmul=false"));
}

TEST(Train, PrintsTheReferencesLineForEveryStep) {
  const TemporaryFolder folder;
  const std::string number = R"(\d+\.\d{3})";
  const std::string line = "completed step: \\d+, seconds: " + number + ", TFLOP/s/device: " + number +
                           ", Tokens/s/device: " + number + ", total_weights: 14, loss: " + number +
                           ", lm_loss: " + number + ", perplexity: " + number;
  const auto lines_of = [&](const std::string& request, const std::string& expected) {
    const Outcome outcome = train_with(request + "steps=3 metrics_file=" + folder.path() + "/m.jsonl");
    int found = 0;
    for (const std::string& printed : split(outcome.out, '\n'))
      found += std::regex_match(printed, std::regex(expected)) ? 1 : 0;
    return found;
  };
  EXPECT_EQ(lines_of(kTinyModel, line), 3);
  EXPECT_EQ(lines_of(kTinyMixtral, line + R"(, moe_lb_loss: \d+\.\d{6})"), 3);
  EXPECT_EQ(lines_of(kTinyModel + "mtp_num_layers=1 ", line + ", main_model_loss: " + number + ", mtp_loss: " + number), 3);
}

// Documents of one token each: nothing is to be predicted, in one microbatch or in several.
TEST(Train, GoesOnWithoutATokenToPredict) {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += "{\"text\": \"a\"}\n";
  const std::string request = kTinyMixtral + "vocab_size=256 dataset_type=jsonl add_bos=false add_eos=false packing=false dataset_path=" +
                              folder.write("a.jsonl", lines) + " steps=2 metrics_file=" + folder.path() + "/m.jsonl ";
  for (const std::string passes : {"1", "2"}) {
    const Outcome outcome = train_with(request + "gradient_accumulation_steps=" + passes);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("the batch of step 0 has no token to predict: each of its documents has one token or none"));
    EXPECT_THAT(outcome.out, HasSubstr("total_weights: 0, loss: 0.000"));
  }
}

TEST(Train, TellsOfLossesThatHardlyTrain) {
  const TemporaryFolder folder;
  const std::string request = kTinyMixtral + "load_balance_loss_weight=0.1 steps=1 metrics_file=" + folder.path() + "/m.jsonl ";
  EXPECT_THAT(train_with(request + "gradient_accumulation_steps=2").err,
              HasSubstr("load_balance_loss_weight hardly trains with gradient_accumulation_steps=2"));
  EXPECT_THAT(train_with(request).err, Not(HasSubstr("hardly trains")));
}

TEST(Train, PrintsItsEndOnlyOrItsMetricsWhereThatIsAskedFor) {
  const TemporaryFolder folder;
  const std::string request = kTinyMixtral + "log_config=true steps=2 metrics_file=" + folder.path() + "/m.jsonl";
  const Outcome quiet = train_with(request + " --quiet");
  EXPECT_EQ(quiet.code, 0) << quiet.err;
  EXPECT_THAT(quiet.out, AllOf(HasSubstr("2 steps in "), Not(HasSubstr("completed step")), Not(HasSubstr("Config param")), Not(HasSubstr(" parameters, "))));
  std::filesystem::remove(folder.path() + "/m.jsonl");
  const std::string lines = train_with(request + " --json").out;
  EXPECT_EQ(lines, test::read_text(folder.path() + "/m.jsonl"));
  EXPECT_THAT(train_with(request + " --quiet --json").err, HasSubstr("--quiet and --json"));
  EXPECT_THAT(train_with(request + " --quiet --audit").err, HasSubstr("--quiet and --audit"));
  EXPECT_THAT(train_with(request + " --json --audit").err, HasSubstr("--json and --audit"));
}

TEST(Train, SaysWhatItTrainsAndWhatCameOut) {
  const TemporaryFolder folder;
  const Outcome outcome = train_with(kTinyModel + "steps=2 metrics_file=" + folder.path() + "/m.jsonl");
  EXPECT_THAT(outcome.out, HasSubstr("default on cpu-1: 1 device as one device, default rules\n"));
  EXPECT_THAT(outcome.out, HasSubstr("2 rows of 7 tokens a step, 2 a device, from synthetic tokens, one fixed batch\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\n2 steps in "));
  EXPECT_THAT(outcome.out, HasSubstr("Metrics: " + folder.path() + "/m.jsonl\n"));
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, HasSubstr("Config param steps: 2\n"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("Config param opt_type: ")));
}

TEST(Train, KeepsAnAccessTokenToItself) {
  const TemporaryFolder folder;
  const Outcome outcome = train_with(kTinyModel + "steps=1 hf_access_token=s3cret metrics_file=" + folder.path() + "/m.jsonl");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out + outcome.err, Not(HasSubstr("s3cret")));
}

TEST(Train, SaysNothingOfWhatIsNotAsked) {
  const TemporaryFolder folder;
  const Outcome outcome = train_with(
      kTinyModel + "steps=1 enable_checkpointing=false log_config=false metrics_file=" + folder.path() + "/m.jsonl");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, Not(HasSubstr("Config param")));
}

TEST(Train, RefusesALayoutThatLeavesTooMuchUnsharded) {
  const Outcome outcome = train_with(
      kTinyModel +
      "compile_topology=cpu-8 base_num_kv_heads=2 vocab_size=24 per_device_batch_size=1 ici_data_parallelism=4 "
      "ici_fsdp_parallelism=1 ici_tensor_parallelism=2 sharding_tolerance=0.001 logical_axis_rules=[[norm,[]]]");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("; sharding_tolerance allows 0.1 %"));
}

double last_loss(const std::string& request) {
  const TemporaryFolder folder;
  const Outcome outcome = train_with(request + " metrics_file=" + folder.path() + "/m.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return metrics_in(folder.path() + "/m.jsonl").back()["loss"];
}

TEST(Train, GivesTheSameLossesEveryTimeAndOthersForAnotherSeed) {
  const double loss = last_loss(kTinyMixtral + "steps=4 learning_rate=0.01");
  EXPECT_EQ(loss, last_loss(kTinyMixtral + "steps=4 learning_rate=0.01"));
  EXPECT_NE(loss, last_loss(kTinyMixtral + "steps=4 learning_rate=0.01 init_weights_seed=1"));
}

TEST(Train, LearnsAText) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "the cat sat on the mat. ";
  const std::string path = folder.write("a.txt", text);
  const double loss =
      last_loss(kTinyModel + "vocab_size=128 dataset_type=text dataset_path=" + path + " steps=150 learning_rate=0.02");
  EXPECT_LT(loss, 1);
}

TEST(Train, RefusesDataThatTheModelDoesNotFit) {
  const TemporaryFolder folder;
  const Outcome outcome =
      train_with(kTinyModel + "dataset_type=text dataset_path=" + folder.write("a.txt", "some text") +
                 " metrics_file=" + folder.path() + "/m.jsonl");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("token 115 at position 0, read as a byte a token, but vocab_size=23"));
  EXPECT_EQ(train_with(kTinyModel + "dataset_type=tfds").code, 2);
}

TEST(Train, TakesTheStepsOfTheScheduleWhereNoneAreGiven) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/m.jsonl";
  train_with(kTinyModel + "steps=-1 learning_rate_schedule_steps=3 metrics_file=" + path);
  EXPECT_EQ(metrics_in(path).size(), 3u);
  EXPECT_EQ(train_with(kTinyModel + "steps=0 learning_rate_schedule_steps=3 metrics_file=" + path).code, 0);
  EXPECT_EQ(metrics_in(path).size(), 3u) << "no step more";
  const Outcome neither = train_with(kTinyModel + "steps=-1");
  EXPECT_EQ(neither.code, 2);
  EXPECT_THAT(neither.err, HasSubstr("steps=-1 stands for learning_rate_schedule_steps, which is -1 too"));
}

// The model is refused before anything of its size is allocated.
TEST(Train, RefusesAModelThatTheMachineCannotHold) {
  const Outcome outcome =
      train_with("model_name=llama3-405b compile_topology=cpu-1 dataset_type=synthetic per_device_batch_size=1");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr(" of memory are needed at the peak, "));
}

// The losses are those of one device, and the measured peak equals the planned one to the last printed digit.
TEST(Train, RunsOnSeveralDevicesAsPlanned) {
  const TemporaryFolder folder;
  const std::string request = kTinyModel + "steps=3 vocab_size=24 base_num_kv_heads=2 metrics_file=" + folder.path() + "/";
  const Outcome one = train_with(request + "one compile_topology=cpu-1 per_device_batch_size=4");
  const Outcome four = train_with(request + "four compile_topology=cpu-4 ici_fsdp_parallelism=2 ici_tensor_parallelism=2 "
                                            "per_device_batch_size=1");
  ASSERT_EQ(one.code, 0) << one.err;
  ASSERT_EQ(four.code, 0) << four.err;
  const std::vector<json> expected = metrics_in(folder.path() + "/one");
  const std::vector<json> made = metrics_in(folder.path() + "/four");
  ASSERT_EQ(made.size(), 3u);
  for (std::size_t i = 0; i < made.size(); ++i) {
    for (const char* key : {"loss", "raw_grad_norm", "param_norm"}) {
      EXPECT_NEAR(made[i][key].get<double>(), expected[i][key].get<double>(), 1e-5 * expected[i][key].get<double>()) << key;
    }
  }
  EXPECT_THAT(four.out, HasSubstr("4 devices as fsdp=2 x tensor=2"));
  std::smatch planned, measured;
  for (const Outcome& outcome : {one, four}) {
    ASSERT_TRUE(std::regex_search(outcome.out, planned, std::regex("equal shards once: ([0-9.]+ .iB)"))) << outcome.out;
    ASSERT_TRUE(std::regex_search(outcome.out, measured, std::regex("peak ([0-9.]+ .iB) of values"))) << outcome.out;
    EXPECT_EQ(planned[1], measured[1]);
  }
}

TEST(Train, RunsTheFirstConfigurationWithoutArguments) {
  const TemporaryFolder folder;
  const std::string command = fmt::format("cd {} && {} train configs/first.yml steps=2 per_device_batch_size=1 max_target_length=32 2>&1 >out",
                                          folder.path(), test::binary());
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 0);
  const std::string out = test::read_text(folder.path() + "/out");
  EXPECT_THAT(out, HasSubstr("default on cpu-8: 8 devices as fsdp=2 x expert=4"));
  EXPECT_THAT(out, HasSubstr("5.41 M parameters, 1.73 M active"));
  EXPECT_THAT(out, HasSubstr("completed step: 1, "));
}

// A learning rate of a million makes parameters of about a million, whose products overflow float32.
const std::string kDiverging = kTinyModel + "steps=30 learning_rate=1000000 warmup_steps_fraction=0 ";

TEST(Train, EndsWhereTheLossIsNoNumberAndNamesTheFirstTensor) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/m.jsonl";
  const Outcome outcome = train_with(kDiverging + "adam_weight_decay=1 metrics_file=" + path);
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  const std::regex report(R"(moesh: error: training: the loss of step \d+ is -?(nan|inf))"
                          R"(; the first value that is not finite is (made by \w+ at|the parameter) \S+\n)");
  EXPECT_TRUE(std::regex_search(outcome.err, report)) << outcome.err;
  for (const json& of : metrics_in(path)) EXPECT_TRUE(of["loss"].is_number());
}

TEST(Train, GoesOnWithoutANumberWhereThatIsAsked) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/m.jsonl";
  const Outcome outcome = train_with(
      kDiverging + "adam_weight_decay=1 abort_on_nan_loss=false abort_on_inf_loss=false metrics_file=" + path);
  EXPECT_EQ(outcome.code, 0);
  const std::vector<json> metrics = metrics_in(path);
  ASSERT_EQ(metrics.size(), 30u);
  EXPECT_TRUE(metrics.back()["loss"].is_null());
}

// A bad step changes nothing: the next step starts from the same parameters.
TEST(Train, LeavesOutUpdatesThatAreNotFinite) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/m.jsonl";
  const Outcome outcome = train_with(kDiverging + "adam_weight_decay=1 non_finite_policy=skip_step metrics_file=" + path);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("; its update is left out"));
  const std::vector<json> metrics = metrics_in(path);
  ASSERT_EQ(metrics.size(), 30u);
  bool any = false;
  for (std::size_t i = 1; i + 1 < metrics.size(); ++i) {
    const bool finite = metrics[i]["loss"].is_number() && metrics[i]["raw_grad_norm"].is_number();
    EXPECT_EQ(metrics[i].value("update_left_out", false), !finite) << i;
    if (finite) continue;
    any = true;
    EXPECT_EQ(metrics[i]["loss"], metrics[i + 1]["loss"]) << "the same batch and the same parameters";
  }
  EXPECT_TRUE(any);
}

// Each step is judged by those before it. One that is left out changes nothing, and the next one has its learning rate.
TEST(Train, LeavesOutUpdatesOfSpikes) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/m.jsonl";
  const std::string request = kTinyModel + "steps=12 learning_rate=0.3 skip_step_on_spikes=true skip_step_interval=4 skip_step_scaling_factor=0.5 ";
  const Outcome outcome = train_with(request + "run_name=r base_output_directory=" + folder.path() + " metrics_file=" + path);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::regex report(R"(the (loss|gradient norm) of step \d+ is \S+, above the limit of \S+ from the last \d steps?; its update is left out)");
  EXPECT_TRUE(std::regex_search(outcome.err, report)) << outcome.err;
  RecentSteps recent(config::load(test::words_of(request)).settings);
  const std::vector<json> metrics = metrics_in(path);
  ASSERT_EQ(metrics.size(), 12u);
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const double loss = metrics[i]["loss"], norm = metrics[i]["grad_norm"];
    const bool is_spike = loss > recent.limits().loss || norm > recent.limits().grad_norm;
    EXPECT_EQ(metrics[i].value("update_left_out", false), is_spike) << i;
    recent.add(loss, norm, is_spike);
    if (!is_spike || i == 0) continue;
    EXPECT_EQ(metrics[i]["param_norm"], metrics[i - 1]["param_norm"]) << i;
    if (i + 1 == metrics.size()) continue;
    EXPECT_EQ(metrics[i]["learning_rate"], metrics[i + 1]["learning_rate"]) << i;
  }
  EXPECT_GT(recent.left_out(), 0);
  EXPECT_LT(recent.left_out(), 10);
}

TEST(Train, SaysWhereATokenizerIsNotUsed) {
  const TemporaryFolder folder;
  const std::string model = folder.path() + "/model";
  std::filesystem::create_directory(model);
  std::filesystem::copy(test::source_folder() / "tests/golden/hf/llama/config.json", model);
  const std::string request =
      "model_name=" + model + " dataset_type=text dataset_path=" + folder.write("a.txt", std::string(200, 'a')) +
      " compile_topology=cpu-1 ici_fsdp_parallelism=1 per_device_batch_size=1 max_target_length=8 steps=1 run_name=r "
      "base_output_directory=" +
      folder.path();
  const std::string note = "text is read as bytes: tokenizer_path=" + model + " reads it by the tokenizer of the model's folder";
  EXPECT_THAT(train_with(request).err, Not(HasSubstr(note)));
  for (const char* file : {"/tokenizer.json", "/tokenizer.model"}) {
    std::ofstream(model + file) << "{}";
    EXPECT_THAT(train_with(request).err, HasSubstr(note));
    EXPECT_THAT(train_with(request + " tokenizer_path=").err, Not(HasSubstr(note)));
    EXPECT_THAT(train_with(request + " dataset_type=synthetic").err, Not(HasSubstr(note)));
    std::filesystem::remove(model + file);
  }
}

double billions(std::int64_t parameters) { return static_cast<double>(parameters) / 1e9; }

ModelSize size_of_model(const std::string& request, std::int64_t tokens = 1, std::int64_t length = 0) {
  const session::Session session = test::session(request);
  return model_size(session.graph, session.shape, tokens, length);
}

// Active parameters include the vocabulary's tables, which the models' own descriptions mostly leave out.
TEST(ModelSize, IsTheKnownNumberOfParametersAndOfThoseInUse) {
  const auto check = [](const std::string& model, double all, double active) {
    const ModelSize size = size_of_model("model_name=" + model);
    EXPECT_NEAR(billions(size.parameters) / all, 1, 0.01) << model;
    EXPECT_NEAR(billions(size.active) / active, 1, 0.02) << model;
  };
  check("llama2-7b", 6.74, 6.74);
  check("mixtral-8x7b", 46.7, 12.9);
  check("qwen3-30b-a3b", 30.5, 3.35);
  check("qwen3-235b-a22b", 235.1, 22.2);
  check("deepseek2-16b", 15.7, 2.66);
  check("deepseek3-671b", 671.0, 37.6);
  check("gpt-oss-20b", 20.9, 4.19);
}

// Six FLOPs per token for each parameter that it is multiplied with: two forward and four backward. Attention
// adds layers x heads x (key dims + value dims) x positions seen, with half of the row seen on average.
TEST(ModelSize, CountsTheOperationsOfAStep) {
  const std::string request = kTinyModel + "max_target_length=8 ";
  const ModelSize size = size_of_model(request, 100, 8);
  const double table = 23 * 12;
  const double multiplied = static_cast<double>(size.parameters) - table;
  const double attention = 2 * 2 * (6 + 6) * 0.5 * 8;  // layers, heads, dims of keys and values, positions seen
  EXPECT_DOUBLE_EQ(size.step_flops, 6.0 * 100 * (multiplied + attention));
  const ModelSize tied = size_of_model(request + "logits_via_embedding=true", 100, 8);
  EXPECT_EQ(tied.parameters, size.parameters - 23 * 12);
  EXPECT_DOUBLE_EQ(tied.step_flops, size.step_flops) << "the one table is multiplied with at the end";
}

// As MaxText's log line counts them: the gates of attention's result take none.
TEST(ModelSize, CountsNoGatesOfAttention) {
  const auto trillions = [](const std::string& model) { return size_of_model("model_name=" + model, 2048, 2048).step_flops / 1e12; };
  EXPECT_NEAR(trillions("qwen3-next-80b-a3b"), 44.715, 0.01);
  EXPECT_NEAR(trillions("qwen3.5-35b-a3b"), 36.976, 0.01);
}

// Of the modules that predict further tokens, MaxText counts the layers only: neither the projection of two embeddings, nor the logits.
TEST(ModelSize, CountsTheLayersOfPredictionModules) {
  const std::string request = kTinyModel + "max_target_length=8 ";
  const ModelSize none = size_of_model(request, 100, 8), two = size_of_model(request + "mtp_num_layers=2", 100, 8);
  const ModelSize fewer = size_of_model(request + "base_num_decoder_layers=1", 100, 8);
  const double layer = none.step_flops - fewer.step_flops;
  EXPECT_EQ(two.parameters - none.parameters, 2 * (none.parameters - fewer.parameters + 12 * 24 + 2 * 12));
  EXPECT_DOUBLE_EQ(two.step_flops - none.step_flops, 2 * layer + 6.0 * 100 * 2 * 2 * 12) << "the norms count";
}

// As MaxText does, though a module has a whole cycle of layers, here of two, and one of them has a window.
TEST(ModelSize, CountsOneLayerOfEachPredictionModule) {
  const std::string request = "model_name=gpt-oss-20b override_model_config=true base_num_decoder_layers=4 sliding_window_size=8 ";
  const auto flops = [&](const std::string& more, std::int64_t length) { return size_of_model(request + more, 64, length).step_flops; };
  const double cycle = flops("base_num_decoder_layers=6", 8) - flops("", 8);
  EXPECT_DOUBLE_EQ(flops("mtp_num_layers=2", 8) - flops("", 8), cycle + 6.0 * 64 * 2 * 2 * 2880) << "two layers, and the norms of modules";
  const auto scores = [&](const std::string& more) { return flops(more, 64) - flops(more, 0); };
  EXPECT_DOUBLE_EQ(scores("mtp_num_layers=1") - scores(""), 6.0 * 64 * 2 * 64 * 0.5 * 64 * 64);
}

// As MaxText counts them: a row of n tokens has n^2 / 2 pairs of query and key, n w - w^2 / 2 with a window
// of w, and with chunks the sum over all chunks.
TEST(ModelSize, CountsTheKeysThatLayersSee) {
  const auto scores = [](const std::string& request, std::int64_t length) {
    const ModelSize some = size_of_model(request, length, length), none = size_of_model(request, length, 0);
    return (some.step_flops - none.step_flops) / 6;
  };
  // Five of six layers have a window of 1,024.
  const std::string gemma3 = "model_name=gemma3-12b";
  const double full = 0.5 * 8192 * 8192, windowed = 8192.0 * 1024 - 0.5 * 1024 * 1024;
  EXPECT_DOUBLE_EQ(scores(gemma3, 8192), 16 * 2 * 256 * (8 * full + 40 * windowed));
  EXPECT_DOUBLE_EQ(scores(gemma3, 512), 16 * 2 * 256 * 48 * 0.5 * 512 * 512);
  // Three of four layers see chunks of 8,192.
  EXPECT_DOUBLE_EQ(scores("model_name=llama4-17b-16e", 32768), 40 * 2 * 128 * (12 * 0.5 * 32768 * 32768 + 36 * 4 * 0.5 * 8192 * 8192));
  // The windows of three of four layers are not counted as such.
  EXPECT_DOUBLE_EQ(scores("model_name=olmo3-7b", 8192), 32 * 2 * 128 * 32 * full);
  // Layers come in pairs, one with a window of 4,096 and one without.
  EXPECT_DOUBLE_EQ(scores("model_name=gemma2-9b", 8192), 16 * 2 * 256 * 21 * (full + 8192.0 * 4096 - 0.5 * 4096 * 4096));
}

}  // namespace
}  // namespace moesh::train
