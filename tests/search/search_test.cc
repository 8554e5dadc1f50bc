// A search covers what the request leaves open, its figures are those of the planner, and it misses nothing better.
#include "search/search.h"

#include <algorithm>
#include <bit>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include "advice/planned_run.h"
#include "base/error.h"
#include "base/text.h"
#include "decode/planned.h"
#include "session/reopen.h"
#include "tests/support.h"

namespace moesh::search {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// Two layers on eight devices, so that all plans of the space can be made.
const std::string kSmall =
    "model_name=mixtral-8x7b override_model_config=true base_num_decoder_layers=2 base_emb_dim=512 base_mlp_dim=1024 base_moe_mlp_dim=1024 "
    "max_target_length=512 per_device_batch_size=2 compile_topology=v5p-8 custom_mesh_and_rule=ep-as-cp";

std::vector<std::string> with(const std::string& request, const Keys& keys) {
  return joined(test::words_of(request), keys);
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
