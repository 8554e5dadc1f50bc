// A search covers what the request leaves open, its figures are those of the planner, and it misses nothing better.
#include "search/search.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "advice/planned_run.h"
#include "base/error.h"
#include "base/text.h"
#include "decode/planned.h"
#include "search/report.h"
#include "session/reopen.h"
#include "tests/support.h"

namespace moesh::search {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Two layers on eight devices, so that all plans of the space can be made.
const std::string kSmall =
    "model_name=mixtral-8x7b override_model_config=true base_num_decoder_layers=2 base_emb_dim=512 base_mlp_dim=1024 base_moe_mlp_dim=1024 "
    "max_target_length=512 per_device_batch_size=2 compile_topology=v5p-8 custom_mesh_and_rule=ep-as-cp";

std::vector<std::string> with(const std::string& request, const Keys& keys) {
  return joined(test::words_of(request), keys);
}

Found found(double seconds, std::int64_t peak) {
  Found made;
  made.offer = {{}, 1, 1, peak, 100, seconds, 1 / seconds};
  return made;
}

std::vector<std::int64_t> peaks(const Front& front) {
  std::vector<std::int64_t> peaks;
  for (const Found& one : front.found()) peaks.push_back(one.offer.peak);
  return peaks;
}

TEST(Front, HoldsWhatNothingElseIsAsGoodAs) {
  Front front(2);
  front.add(found(1.0, 50));
  front.add(found(1.5, 40));
  front.add(found(1.2, 60));  // slower and larger than the first
  front.add(found(1.7, 39));  // hardly smaller than the second
  front.add(found(0.9, 70));
  EXPECT_EQ(peaks(front), (std::vector<std::int64_t>{70, 50, 40}));
  EXPECT_TRUE(front.excludes({1.6, 39}));
  EXPECT_FALSE(front.excludes({1.6, 37}));
  EXPECT_FALSE(front.excludes({0.8, 1000})) << "faster than all";
  EXPECT_TRUE(front.excludes({1.81, 1})) << "twice as slow as the fastest";
  front.add(found(0.8997, 80));
  EXPECT_EQ(peaks(front), (std::vector<std::int64_t>{70, 50, 40})) << "hardly faster";
  front.add(found(0.7, 50));
  EXPECT_EQ(peaks(front), (std::vector<std::int64_t>{50})) << "what is too slow now is gone";
}

// More rows make a token cheaper and a step longer.
TEST(Front, MayWeighTheStepInsteadOfMemory) {
  const auto of_rows = [](std::int64_t rows, double seconds) {
    Found made;
    made.offer = {{}, 1, rows, 50, 100, seconds, static_cast<double>(rows) / seconds};
    return made;
  };
  Front front(std::numeric_limits<double>::infinity(), Beside::step);
  for (const auto& [rows, seconds] : {std::pair(64, 8.0), {16, 4.0}, {4, 3.0}, {1, 2.95}, {2, 5.0}}) front.add(of_rows(rows, seconds));
  std::vector<std::int64_t> rows;
  for (const Found& one : front.found()) rows.push_back(one.offer.tokens);
  EXPECT_EQ(rows, (std::vector<std::int64_t>{64, 16, 4})) << "a row alone is hardly sooner";
  EXPECT_TRUE(front.excludes({.seconds_per_token = 0.3, .peak = 1, .seconds = 4.5}));
  EXPECT_FALSE(front.excludes({.seconds_per_token = 0.2, .peak = 1000, .seconds = 4.5})) << "cheaper than with 16 rows";
  EXPECT_FALSE(front.excludes({.seconds_per_token = 9, .peak = 1000, .seconds = 2})) << "sooner than all";
}

TEST(Front, IsTheSameInAnyOrder) {
  std::mt19937 random(3);
  std::vector<Found> all;
  for (int i = 0; i < 300; ++i) {
    const double seconds = std::uniform_real_distribution(1.0, 1.4)(random);
    all.push_back(found(seconds, static_cast<std::int64_t>(std::uniform_real_distribution(0.8, 1.2)(random) * 1e6 / seconds)));
  }
  std::vector<std::int64_t> first;
  for (int order = 0; order < 20; ++order) {
    Front front(1.25);
    for (const Found& one : all) front.add(one);
    const std::vector<std::int64_t> shown = peaks(front);
    if (first.empty()) first = shown;
    EXPECT_EQ(shown, first);
    EXPECT_GT(shown.size(), 2u);
    const double slowest = 1.25 * front.found().front().seconds_per_token();
    for (const Found& one : all) {
      const std::vector<Found> chosen = front.found();
      const bool has_as_good = std::any_of(chosen.begin(), chosen.end(), [&](const Found& other) {
        return 0.9995 * other.seconds_per_token() <= one.seconds_per_token() && 0.975 * static_cast<double>(other.offer.peak) <= static_cast<double>(one.offer.peak);
      });
      EXPECT_TRUE(has_as_good || one.seconds_per_token() > slowest * 0.999) << one.seconds_per_token() << " " << one.offer.peak;
    }
    std::shuffle(all.begin(), all.end(), random);
  }
}

// Makes all plans of a space, and returns their front.
std::vector<Found> front_of_all(const std::string& request) {
  const Space space = space_of(test::words_of(request));
  Front front(1.25);
  for (const Candidate& candidate : space.candidates) {
    for (const Keys& remat : candidate.remats) {
      for (const Keys& pass : candidate.passes) {
        const Keys keys = joined(joined(candidate.keys, remat), pass);
        const std::optional<advice::Planned> planned = advice::try_keys(test::words_of(request), keys);
        if (!planned) continue;
        const Found one = found_of(keys, planned->session, planned->step.forecast);
        if (one.offer.fits()) front.add(one);
      }
    }
  }
  return front.found();
}

// With tensor parallelism, saving everything takes longer than saving all but what is wide.
const std::string kTensor =
    "model_name=llama2-7b override_model_config=true base_num_decoder_layers=4 compile_topology=v5p-16 per_device_batch_size=4 "
    "ici_tensor_parallelism=8 ici_fsdp_parallelism=1 custom_mesh_and_rule=";

TEST(SearchSlow, FindsTheFrontOfAllPlans) {
  for (const std::string& request : {kSmall, kTensor}) {
    SCOPED_TRACE(request);
    const std::vector<Found> all = front_of_all(request);
    const Outcome outcome = search(test::words_of(request), {.most_plans = 100'000});
    ASSERT_FALSE(all.empty());
    for (const Found& best : all) {
      const bool has_as_good = std::any_of(outcome.front.begin(), outcome.front.end(), [&](const Found& found) {
        return 0.999 * found.seconds_per_token() <= best.seconds_per_token() && 0.95 * static_cast<double>(found.offer.peak) <= static_cast<double>(best.offer.peak);
      });
      EXPECT_TRUE(has_as_good) << join(best.offer.keys, " ") << ": " << best.offer.seconds << " s, " << best.offer.peak;
    }
    EXPECT_LT(outcome.counts.planned, outcome.counts.settings) << "what cannot be better is not planned";
  }
}

// Two layers on four devices under one rule set.
const std::string kTiny =
    "model_name=llama2-7b override_model_config=true base_num_decoder_layers=2 compile_topology=v5p-8 per_device_batch_size=2 "
    "custom_mesh_and_rule=ep-as-cp";

// There are layouts with fewer axes.
TEST(Search, TriesTheRequestItselfFirst) {
  const Outcome outcome = search(test::words_of(kTiny + " compile_topology_num_slices=2"), {.most_plans = 1});
  ASSERT_EQ(outcome.front.size(), 1u);
  EXPECT_THAT(outcome.front[0].layout, HasSubstr("data=2 (2 slices x 1) x fsdp=4"));
}

TEST(Search, MakesNoMorePlansThanItMay) {
  for (const std::int64_t most : {1, 2, 7, 20}) {
    for (const int threads : {1, 3}) {
      const Outcome outcome = search(test::words_of(kTiny), {.most_plans = most, .threads = threads});
      EXPECT_LE(outcome.counts.planned, most);
      EXPECT_GT(outcome.counts.planned, 0);
      EXPECT_GT(outcome.counts.untried, 0) << "of " << most;
      EXPECT_LE(outcome.counts.untried + outcome.counts.differing(), outcome.counts.settings);
    }
  }
  const Outcome all = search(test::words_of(kTiny), {});
  EXPECT_EQ(all.counts.untried, 0);
  EXPECT_EQ(all.counts.left, 0);
}

// In a dense model the expert axis may do what fsdp_transpose does, and under some rules fsdp does it too.
TEST(Search, TellsOfEqualLayoutsTheUsualOne) {
  const std::string model =
      "model_name=llama2-7b override_model_config=true base_num_decoder_layers=2 compile_topology=v5p-8 per_device_batch_size=2 ";
  const std::vector<std::string> usual_first{"fsdp", "expert", "fsdp_transpose"};
  const auto seconds = [&](const std::string& axis, const Keys& others) {
    const Keys keys = joined(others, {"ici_fsdp_parallelism=1", "ici_" + axis + "_parallelism=4"});
    const std::optional<advice::Planned> planned = advice::try_keys(test::words_of(model), keys);
    return planned ? planned->step.forecast.seconds : 0;
  };
  ASSERT_EQ(seconds("expert", {}), seconds("fsdp_transpose", {}));
  const Outcome outcome = search(test::words_of(model + "ici_data_parallelism=1 ici_context_parallelism=1 ici_tensor_parallelism=1"), {});
  EXPECT_GT(outcome.counts.same, 0);
  ASSERT_FALSE(outcome.front.empty());
  for (const Found& found : outcome.front) {
    Keys others = found.offer.keys;
    std::erase_if(others, [](const std::string& key) { return key.starts_with("ici_"); });
    for (const std::string& axis : usual_first) {
      if (found.layout.starts_with(axis + "=4, ")) break;
      EXPECT_NE(seconds(axis, others), found.offer.seconds) << axis << " rather than " << found.layout;
    }
  }
}

TEST(SearchSlow, GivesTheSameOnAnyNumberOfThreads) {
  const auto keys_of = [](const Outcome& outcome) {
    std::vector<Keys> keys;
    for (const Found& found : outcome.front) keys.push_back(found.offer.keys);
    return keys;
  };
  const std::vector<Keys> alone = keys_of(search(test::words_of(kSmall), {}));
  EXPECT_EQ(alone, keys_of(search(test::words_of(kSmall), {.threads = 2})));
  EXPECT_EQ(alone, keys_of(search(test::words_of(kSmall), {.threads = 5})));
}

TEST(SearchSlow, TellsOfEachPlanWhatItTakes) {
  const Outcome outcome = search(test::words_of(kSmall), {});
  ASSERT_FALSE(outcome.front.empty());
  for (const Found& found : outcome.front) {
    const advice::Planned planned = advice::plan_step(with(kSmall, found.offer.keys));
    const Found pasted = found_of(found.offer.keys, planned.session, planned.step.forecast);
    EXPECT_EQ(pasted.offer.seconds, found.offer.seconds);
    EXPECT_EQ(pasted.offer.peak, found.offer.peak);
    EXPECT_TRUE(found.offer.fits());
    EXPECT_EQ(found.offer.tokens, 2 * 4 * 512) << "the batch stays";
    double shares = 0;
    for (const auto& [what, share] : found.limits) shares += share;
    EXPECT_NEAR(shares, 1, 0.05) << "of the step";
  }
}

// Two layers that take turns in being best with many rows and with few.
const std::string kDecoded =
    "model_name=mixtral-8x7b override_model_config=true base_num_decoder_layers=2 max_target_length=512 compile_topology=h100-4 "
    "custom_mesh_and_rule=ep-tp ici_context_parallelism=1 ";

TEST(SearchDecoding, GoesFromTheMostTokensToTheShortestStep) {
  constexpr session::DecodeStage kStage = session::DecodeStage::token;
  const Outcome outcome = search(test::words_of(kDecoded), Effort{}, kStage);
  ASSERT_GT(outcome.front.size(), 2u);
  for (std::size_t i = 1; i < outcome.front.size(); ++i) {
    EXPECT_GT(outcome.front[i].seconds_per_token(), outcome.front[i - 1].seconds_per_token());
    EXPECT_LT(outcome.front[i].offer.seconds, outcome.front[i - 1].offer.seconds);
  }
  for (const Found& found : outcome.front) {
    const advice::PlannedRun pasted = advice::plan_run(session::open_to_decode(with(kDecoded, found.offer.keys), kStage));
    EXPECT_EQ(pasted.forecast.seconds, found.offer.seconds);
    EXPECT_EQ(pasted.forecast.memory.peak, found.offer.peak);
    EXPECT_EQ(pasted.forecast.decoding->rows, found.offer.tokens);
    EXPECT_TRUE(found.offer.fits());
  }
}

// No plan of the space is both cheaper and sooner.
TEST(SearchDecoding, FindsTheFrontOfAllPlans) {
  const Space space = space_of(test::words_of(kDecoded), session::DecodeStage::token);
  const Outcome outcome = search(test::words_of(kDecoded), Effort{}, session::DecodeStage::token);
  int planned = 0;
  for (const Candidate& candidate : space.candidates) {
    for (const Keys& rows : candidate.passes) {
      std::optional<Found> one;
      try {
        const advice::PlannedRun run = advice::plan_run(
            session::reopen(with(kDecoded, joined(candidate.keys, rows)), session::Evenness::demanded, session::DecodeStage::token));
        one = found_of({}, run.session, run.forecast);
      } catch (const Error&) {
        continue;  // as many rows do not lie evenly
      }
      ++planned;
      const bool has_as_good = std::any_of(outcome.front.begin(), outcome.front.end(), [&](const Found& found) {
        return 0.999 * found.seconds_per_token() <= one->seconds_per_token() && 0.95 * found.offer.seconds <= one->offer.seconds;
      });
      EXPECT_TRUE(has_as_good || !one->offer.fits()) << join(joined(candidate.keys, rows), " ") << ": " << one->offer.seconds;
    }
  }
  EXPECT_GT(planned, 20);
}

TEST(SearchDecoding, SpreadsACacheOfWhichDevicesHoldCopies) {
  const std::string request =
      "model_name=deepseek2-16b override_model_config=true base_num_decoder_layers=2 first_num_dense_layers=1 compile_topology=h100-8 "
      "ici_expert_parallelism=8 ici_fsdp_parallelism=1 max_target_length=16384 ";
  const auto best = [&](const std::string& more) {
    return search(test::words_of(request + more), Effort{}, session::DecodeStage::token).front.at(0);
  };
  const Found spread = best("");
  EXPECT_THAT(spread.offer.keys, Contains("logical_axis_rules=[[cache_batch,[expert]]]"));
  EXPECT_LT(spread.seconds_per_token(), best("logical_axis_rules=[[cache_batch,[]]]").seconds_per_token());
}

TEST(SearchDecoding, TakesTheRowsThatTheRequestGives) {
  for (const session::DecodeStage stage : {session::DecodeStage::token, session::DecodeStage::prompt}) {
    const std::vector<std::string> request = test::words_of(kDecoded + "per_device_batch_size=2 max_prefill_predict_length=16");
    const Outcome outcome = search(request, Effort{}, stage);
    ASSERT_FALSE(outcome.front.empty());
    for (const Found& found : outcome.front) {
      EXPECT_EQ(found.offer.tokens, stage == session::DecodeStage::token ? 8 : 8 * 16);
      EXPECT_EQ(join(found.offer.keys, " ").find("remat_policy"), std::string::npos);
      EXPECT_EQ(join(found.offer.keys, " ").find("gradient_accumulation_steps"), std::string::npos);
    }
    EXPECT_EQ(outcome.counts.settings, outcome.counts.differing()) << "one plan a layout";
  }
}

// Between two powers of two, of which the larger does not fit. What compile says is found by many more plans.
TEST(SearchDecoding, EndsAtTheMostRowsThatFit) {
  int between = 0;
  for (const char* more : {"max_target_length=32768", "max_target_length=65536 custom_mesh_and_rule=ep-as-cp", "max_target_length=24576",
                           "max_target_length=40000 custom_mesh_and_rule=pure-fsdp", "max_target_length=20000 weight_dtype=bfloat16"}) {
    SCOPED_TRACE(more);
    const std::string request = kDecoded + more;
    const Outcome outcome = search(test::words_of(request), Effort{}, session::DecodeStage::token);
    ASSERT_FALSE(outcome.front.empty());
    const advice::PlannedRun best =
        advice::plan_run(session::open_to_decode(with(request, outcome.front[0].offer.keys), session::DecodeStage::token));
    const std::int64_t most = decode::most_rows(best.session, best.forecast).rows, rows = outcome.front[0].offer.tokens;
    if (rows == 4 * 256) continue;  // the most that is tried
    between += !std::has_single_bit(static_cast<std::uint64_t>(rows));
    EXPECT_LE(rows, most);
    EXPECT_GT(static_cast<double>(rows), 0.98 * static_cast<double>(most) - 4);
  }
  EXPECT_GE(between, 2);
}

TEST(Search, EndsAtTheLargestBatchThatFits) {
  for (const char* more : {"remat_policy=minimal", "remat_policy=full max_target_length=8192", "remat_policy=save_qkv_proj"}) {
    SCOPED_TRACE(more);
    const std::string request = "model_name=llama2-7b override_model_config=true base_num_decoder_layers=8 compile_topology=v5e-4 "
                                "custom_mesh_and_rule=pure-fsdp " + std::string(more);
    const Outcome outcome = search(test::words_of(request), Effort{});
    ASSERT_FALSE(outcome.front.empty());
    const double rows = session::open(with(request, outcome.front[0].offer.keys)).loaded.settings.real("per_device_batch_size");
    EXPECT_FALSE(std::has_single_bit(static_cast<std::uint64_t>(rows))) << rows;
    const std::optional<advice::Planned> larger = advice::try_keys(test::words_of(request), {fmt::format("per_device_batch_size={}", rows + 1)});
    ASSERT_TRUE(larger);
    EXPECT_FALSE(larger->step.forecast.fits()) << rows + 1;
    EXPECT_GE(outcome.counts.settings, outcome.counts.differing());
  }
}

TEST(SearchReport, TellsWhatIsNotTriedWhereNothingFitsToo) {
  Outcome outcome;
  const auto text_of = [&] {
    const Told told{.machines = {{"v5p-8", {"model_name=llama2-7b"}, 4, outcome}}, .against = {}};
    const std::string text = to_text(told, 0);
    for (const auto& what : nlohmann::json::parse(to_json(told))["not_tried"]) EXPECT_THAT(text, HasSubstr(what.get<std::string>()));
    return text;
  };
  EXPECT_THAT(text_of(), ::testing::Not(HasSubstr("rows a device at a time")));
  outcome.has_open_batch = true;
  EXPECT_THAT(text_of(), HasSubstr("; more than 64 rows a device at a time; of batches between powers of two any but the largest that fits; "));
}

TEST(SearchReport, TellsOfDecodingFromManyRowsToFew) {
  Outcome outcome;
  outcome.beside = Beside::step;
  for (int i = 0; i < 30; ++i) {
    outcome.front.push_back(found(1.0 + i, 50));
    outcome.front.back().offer.keys = {fmt::format("per_device_batch_size={}", 30 - i)};
  }
  const Told told{.stage = session::DecodeStage::prompt, .machines = {{"v5p-8", {"model_name=llama2-7b"}, 4, outcome}}, .against = {}};
  const std::string text = to_text(told, 0);
  EXPECT_THAT(text, HasSubstr("\n 1  ./moesh compile --prefill model_name=llama2-7b per_device_batch_size=30\n"));
  EXPECT_THAT(text, HasSubstr("\n12  ./moesh compile --prefill model_name=llama2-7b per_device_batch_size=1\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("MFU"))) << "which decoding does not have";
  EXPECT_THAT(text, ::testing::Not(HasSubstr("remat_policy")));
  EXPECT_EQ(nlohmann::json::parse(to_json(told))["machines"][0]["front"].size(), 30u);
  EXPECT_THAT(front_of(told, "").sentences.back(), HasSubstr("better in both speed and the time of a step"));
}

TEST(SearchReport, TellsWhichChunksMaxTextTakes) {
  const auto told = [](const std::string& request, const std::vector<std::string>& keys) {
    Outcome outcome;
    outcome.front = {found(1.0, 50)};
    outcome.front.back().offer.keys = keys;
    return to_text(Told{.machines = {{"v5p-8", {"model_name=mixtral-8x7b", request}, 4, outcome}}, .against = {}}, 0);
  };
  const std::string words = "\nMaxText takes num_moe_token_chunks with use_ring_of_experts=true only.\n";
  EXPECT_THAT(told("steps=1", {"num_moe_token_chunks=2"}), HasSubstr(words));
  EXPECT_THAT(told("use_ring_of_experts=True", {"num_moe_token_chunks=2"}), ::testing::Not(HasSubstr(words)));
  EXPECT_THAT(told("steps=1", {"use_ring_of_experts=true", "num_moe_token_chunks=2"}), ::testing::Not(HasSubstr(words)));
  EXPECT_THAT(told("steps=1", {"remat_policy=full"}), ::testing::Not(HasSubstr(words)));
  EXPECT_THAT(told("steps=1", {"use_batch_split_schedule=true", "batch_split_factor=2"}),
              HasSubstr("\nMaxText takes use_batch_split_schedule with decoder_block=deepseek and shard_mode=explicit only.\n"));
}

// What differs stands alone, and with the rest it makes up both steps.
TEST(SearchReport, TellsAllOfTheTimeOfYoursAndOfTheBest) {
  Found yours = found(2.0, 50), best = found(1.0, 50);
  yours.limits = {{"products", 0.5}, {"all-gather over fsdp", 0.3}, {"attention", 0.1}, {"norms", 0.1}};
  best.limits = {{"products", 0.5}, {"attention", 0.2}, {"norms", 0.2}, {"all-reduce over data", 0.1}};
  Outcome outcome;
  outcome.front = {best};
  const Told told{.machines = {{"v5p-8", {"model_name=llama2-7b"}, 4, outcome}}, .against = Yours{{"model_name=llama2-7b"}, yours}};
  const std::string text = to_text(told, 0), table = text.substr(text.find("of a step "));
  EXPECT_THAT(table, StartsWith("of a step               yours  the best\n"
                                "all-gather over fsdp   600 ms   0.00 ms\n"));
  EXPECT_THAT(table, ::testing::AllOf(HasSubstr("\nproducts "), HasSubstr("\nall-reduce over data "), ::testing::Not(HasSubstr("\nattention ")),
                                      ::testing::Not(HasSubstr("\nnorms "))));
  EXPECT_THAT(table, ::testing::ContainsRegex("\nthe rest +400 ms +400 ms\nall +2\\.00 s +1\\.00 s\n"));
}

TEST(SearchReport, TellsTheTimeOfTheBestForTheTokensOfYours) {
  Found yours = found(2.0, 50), best = found(4.0, 50);
  yours.offer.tokens = 1000;
  best.offer.tokens = 4000;
  yours.limits = best.limits = {{"products", 1.0}};
  Outcome outcome;
  outcome.front = {best};
  const std::string text =
      to_text(Told{.machines = {{"v5p-8", {"model_name=llama2-7b"}, 4, outcome}}, .against = Yours{{"model_name=llama2-7b"}, yours}}, 0);
  EXPECT_THAT(text, HasSubstr("\nfor 1,000 tokens    yours  the best\nproducts           2.00 s    1.00 s\n"));
}

TEST(SearchReport, QuotesItsCommandsForAShell) {
  const Found best = found(1.0, 50);
  Found other = best;
  other.offer.keys = {"logical_axis_rules=[[embed, [fsdp]], [mlp, tensor]]"};
  Outcome outcome;
  outcome.front = {best, other};
  const Told told{.machines = {{"v5p-8", {"model_name=llama2-7b", "run_name=it's mine"}, 4, outcome}}, .against = {}};
  const std::string first = "./moesh compile model_name=llama2-7b 'run_name=it'\\''s mine'";
  const std::string second = first + " 'logical_axis_rules=[[embed, [fsdp]], [mlp, tensor]]'";
  EXPECT_THAT(to_text(told, 0), HasSubstr("\n 1  " + first + "\n 2  " + second + "\n"));
  EXPECT_EQ(nlohmann::json::parse(to_json(told))["machines"][0]["front"][1]["command"], second);
  EXPECT_EQ(front_of(told, "").table->rows[1].back().text, second);
}

// No layout that a user might name for the same request is faster than the one that was found.
TEST(SearchSlow, IsNoWorseThanWhatTheRequestCouldSay) {
  const std::string model =
      "model_name=mixtral-8x7b override_model_config=true base_num_decoder_layers=4 max_target_length=1024 per_device_batch_size=4 "
      "compile_topology=v6e-8";
  const Outcome outcome = search(test::words_of(model), {.most_plans = 3000, .threads = 2});
  ASSERT_FALSE(outcome.front.empty());
  for (const std::string named : {"", "ici_expert_parallelism=8 ici_fsdp_parallelism=1", "ici_expert_parallelism=4 remat_policy=minimal",
                                  "custom_mesh_and_rule=pure-fsdp", "custom_mesh_and_rule=ep-as-cp ici_expert_parallelism=2",
                                  "ici_tensor_parallelism=2 ici_expert_parallelism=4 use_ring_of_experts=true"}) {
    const std::optional<advice::Planned> planned = advice::try_keys(test::words_of(model), test::words_of(named));
    ASSERT_TRUE(planned) << named;
    const Found theirs = found_of({}, planned->session, planned->step.forecast);
    if (!theirs.offer.fits()) continue;
    EXPECT_LE(outcome.front.front().seconds_per_token(), theirs.seconds_per_token()) << named;
  }
}

bool names(const Keys& keys, const std::string& key) {
  return std::any_of(keys.begin(), keys.end(), [&](const std::string& one) { return one.starts_with(key + "="); });
}

// Gives one key at a time for each thing that the search otherwise chooses.
TEST(Space, LeavesWhatTheRequestGives) {
  const std::string model = "model_name=mixtral-8x7b compile_topology=v5p-32 ";  // 16 devices
  const auto says = [&](const std::string& given, const std::string& key) {
    const Space space = space_of(filled(test::words_of(model + given)));
    EXPECT_FALSE(space.candidates.empty()) << given;
    bool is_said = false;
    for (const Candidate& candidate : space.candidates) {
      is_said = is_said || names(candidate.keys, key);
      for (const auto* settings : {&candidate.remats, &candidate.passes}) {
        for (const Keys& keys : *settings) is_said = is_said || names(keys, key);
      }
    }
    return is_said;
  };
  for (const std::string given : {"custom_mesh_and_rule=ep-as-cp", "ici_fsdp_parallelism=4", "ici_expert_parallelism=2", "ici_tensor_parallelism=1",
                                  "ici_context_parallelism=2", "remat_policy=minimal", "use_ring_of_experts=false"}) {
    const std::string key = given.substr(0, given.find('='));
    EXPECT_TRUE(says("", key)) << key;
    EXPECT_FALSE(says(given, key)) << given;
  }
  EXPECT_TRUE(says("", "per_device_batch_size"));
  EXPECT_TRUE(says("per_device_batch_size=4", "gradient_accumulation_steps")) << "the same batch in more passes";
  EXPECT_FALSE(says("per_device_batch_size=4 gradient_accumulation_steps=2", "gradient_accumulation_steps"));
  EXPECT_TRUE(says("sparse_matmul=false capacity_factor=1.25", "moe_dispatch_no_expert_sharding"));
  EXPECT_FALSE(says("sparse_matmul=false capacity_factor=1.25 moe_dispatch_no_expert_sharding=true", "moe_dispatch_no_expert_sharding"));
  EXPECT_FALSE(says("sparse_matmul=false capacity_factor=1.25", "use_ring_of_experts"));
}

TEST(Space, TakesABatchInEveryNumberOfPassesThatDividesIt) {
  for (int rows = 1; rows <= 24; ++rows) {
    const Space space = space_of(test::words_of(fmt::format("model_name=llama2-7b compile_topology=v5p-8 custom_mesh_and_rule=pure-fsdp "
                                                            "per_device_batch_size={}", rows)));
    ASSERT_FALSE(space.candidates.empty());
    for (int parts = 2; parts <= rows; ++parts) {
      const Keys keys{fmt::format("per_device_batch_size={}", rows / parts), fmt::format("gradient_accumulation_steps={}", parts)};
      if (rows % parts != 0) continue;
      EXPECT_THAT(space.candidates[0].passes, Contains(keys)) << rows;
    }
  }
}

TEST(Space, FillsTheMachineWhereSizesLeaveDevicesOver) {
  const auto last = [](const std::string& request) { return filled(test::words_of("model_name=mixtral-8x7b " + request)).back(); };
  EXPECT_EQ(last("compile_topology=v5p-32 ici_fsdp_parallelism=4"), "ici_data_parallelism=-1");
  EXPECT_EQ(last("compile_topology=v5p-32 ici_fsdp_parallelism=16"), "ici_fsdp_parallelism=16");
  EXPECT_EQ(last("compile_topology=v5p-32 ici_fsdp_parallelism=3"), "ici_fsdp_parallelism=3") << "which the search then refuses";
  EXPECT_EQ(last("compile_topology=v5p-32 ici_data_parallelism=2 ici_fsdp_parallelism=4"), "ici_fsdp_parallelism=4");
}

TEST(Space, DividesSlicesAndWhatIsWithinThem) {
  const Space space = space_of(test::words_of("model_name=llama2-7b compile_topology=v5e-16 compile_topology_num_slices=4"));
  EXPECT_THAT(space.candidates, Contains(::testing::Field(&Candidate::keys, Contains("dcn_fsdp_parallelism=4"))));
  for (const Candidate& candidate : space.candidates) {
    const session::Session session = test::session(
        "model_name=llama2-7b per_device_batch_size=16 compile_topology=v5e-16 compile_topology_num_slices=4 " + join(candidate.keys, " "));
    EXPECT_EQ(session.mesh.devices(), 64) << join(candidate.keys, " ");
  }
}

// A layout is too large, and counted so, if its parameters and moments alone take more than a device's memory.
TEST(Space, LeavesOutWhatItsStateAloneMakesTooLarge) {
  const Space space = space_of(test::words_of("model_name=llama2-70b compile_topology=v5e-64"));
  EXPECT_GT(space.too_large, 0);
  for (const Candidate& candidate : space.candidates) EXPECT_LE(candidate.state_bytes, space.usable_memory);
  const Space none = space_of(test::words_of("model_name=llama2-70b compile_topology=v5e-4"));
  EXPECT_TRUE(none.candidates.empty());
  EXPECT_GT(none.least_state, none.usable_memory);
}

TEST(Space, VariesTheBestByOneMoreChange) {
  const std::string sparse = "model_name=mixtral-8x7b compile_topology=v5p-32";
  const Candidate spread{{"ici_data_parallelism=2", "ici_fsdp_parallelism=8"}, 2, 1, 1, {{}, {"remat_policy=minimal"}}, {{}}, {}};
  const auto variants = [&](const std::string& request) {
    std::set<std::string> last;
    for (const Candidate& variant : variants_of(spread, test::words_of(request)))
      last.insert(variant.remats.size() == 1 ? variant.remats.front().front() : variant.keys.back());
    return last;
  };
  const std::string remat = "remat_policy=save_dot_with_context_except_mlp", moments = "shard_optimizer_over_data=true";
  EXPECT_EQ(variants(sparse), (std::set<std::string>{"num_moe_token_chunks=2", "num_moe_token_chunks=4", moments, remat}));
  EXPECT_EQ(variants(sparse + " num_moe_token_chunks=1"), (std::set<std::string>{moments, remat}));
  const std::string takes_turns = "model_name=deepseek3-671b compile_topology=v5p-32 num_moe_token_chunks=1";
  EXPECT_EQ(variants(takes_turns), (std::set<std::string>{"logical_axis_rules=[[expert_only,[expert]]]", moments, remat}));
  EXPECT_EQ(variants(takes_turns + " batch_split_factor=1"), (std::set<std::string>{moments, remat}));
  EXPECT_EQ(variants("model_name=llama2-7b compile_topology=v5p-32"), (std::set<std::string>{moments, remat}));
}

// Rows that are loaded lie evenly there, not those that are trained on.
TEST(Search, PlansABatchOfWhichDevicesTrainOnPartsOfRows) {
  const Outcome made = search(test::words_of("model_name=gemma2-2b override_model_config=true base_num_decoder_layers=2 "
                                             "compile_topology=mi300x-4 ici_fsdp_parallelism=4 per_device_batch_size=0.5 "
                                             "custom_mesh_and_rule=pure-fsdp"),
                              {});
  EXPECT_FALSE(made.front.empty());
}

}  // namespace
}  // namespace moesh::search
