// `moesh compile --skew`: the predicted step if routers favour some experts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "advice/planned.h"
#include "forecast/timing.h"
#include "tests/cli/json_outcome.h"

namespace moesh::cli {
namespace {

using Json = nlohmann::json;
using forecast::Router;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Two layers on 2 groups of 4 devices. Each group shards 8 experts and routes 4096 tokens to two experts each.
const std::string kSpread =
    "compile model_name=mixtral-8x7b override_model_config=true base_num_decoder_layers=2 max_target_length=512 "
    "per_device_batch_size=2 compile_topology=v5p-16 ici_fsdp_parallelism=2 ici_expert_parallelism=4 ";
const std::string kFsdp = kSpread + "ici_fsdp_parallelism=8 ici_expert_parallelism=1 ";
const std::string kRing = kSpread + "use_ring_of_experts=true ";

Json step_json(const std::string& line) { return json_of(line + " --json"); }

double figure(const Json& step, const char* router, const char* key) { return step["routing"][router][key].get<double>(); }

// Both for rings of experts and for all-to-alls.
TEST(Skew, TellsWhatTheBusiestDeviceCostsWhereRowsAreSharedOut) {
  for (const std::string& request : {kSpread, kRing}) {
    const Json step = step_json(request + "--skew 1");
    const Json& routing = step["routing"];
    EXPECT_EQ(routing["way"], "shared_out");
    EXPECT_EQ(routing["tokens"], 4096);
    EXPECT_EQ(routing["devices"], 4);
    EXPECT_EQ(routing["groups"], 2);
    EXPECT_EQ(routing["mean_rows"], 2048);
    EXPECT_EQ(routing["room"], 4096 * 2);
    EXPECT_FALSE(routing["bounded"].get<bool>());
    // Measured in recorded steps of `train --skew 1`: the busiest device has 1.65 times the mean with experts
    // in random order and 2.02 times in order of rank, the busiest expert 2.53 times.
    EXPECT_NEAR(figure(step, "expected_maximum", "busiest_by_mean"), 1.65, 0.05);
    EXPECT_NEAR(figure(step, "hottest_together", "busiest_by_mean"), 2.02, 0.05);
    EXPECT_NEAR(routing["busiest_expert"].get<double>(), 2.53, 0.05);
    EXPECT_EQ(figure(step, "even_router", "busiest_by_mean"), 1);
    for (const char* figure_of : {"seconds_per_step", "memory_filled"}) {
      EXPECT_LT(figure(step, "even_router", figure_of), figure(step, "expected_maximum", figure_of)) << figure_of;
      EXPECT_LT(figure(step, "expected_maximum", figure_of), figure(step, "hottest_together", figure_of)) << figure_of;
    }
    EXPECT_LE(figure(step, "hottest_together", "memory_filled"), step["memory_per_device"]["peak"].get<double>());
    EXPECT_EQ(figure(step, "expected_maximum", "seconds_per_step"), step["seconds_per_step"].get<double>());
    EXPECT_EQ(figure(step, "hottest_together", "dropped"), 0);
    EXPECT_THAT(outcome(request + "--skew 1").out,
                AllOf(HasSubstr("Experts are drawn by Zipf's law with skew 1, 2 of 8 a token; "), HasSubstr("expected maximum"),
                      HasSubstr("In each of 2 groups 4 devices, "), HasSubstr("A device has room for 8,192 rows, all that could come: nothing "),
                      HasSubstr("\nrows of the busiest device"), HasSubstr("\nits memory at the peak, filled")));
  }
}

// The products of experts grow by the busiest device's factor, the transfers of their rows by at most that
// factor, and nothing else grows.
TEST(Skew, GrowsWhatWaitsForTheBusiestDevice) {
  for (const std::string& request : {kSpread, kRing}) {
    const advice::Planned planned = advice::plan_step(test::words_of(request.substr(8) + "router_skew=1"));
    const plan::Plan& plan = planned.step.program.plan;
    const cost::Network network(plan.mesh, planned.session.target);
    const double busiest = planned.step.forecast.busiest_rows;
    const std::vector<forecast::Timing> even = forecast::timings_of(plan, network);
    const std::vector<forecast::Timing> drawn = forecast::timings_of(plan, network, forecast::RoutedRows(plan, Router::drawn));
    int products = 0, sent = 0;
    for (std::size_t i = 0; i < even.size(); ++i) {
      const plan::Instruction& instruction = plan.instructions[i];
      if (instruction.op == graph::Op::grouped_matmul || instruction.op == graph::Op::grouped_outer) {
        EXPECT_NEAR(drawn[i].work.flops / even[i].work.flops, busiest, 0.01) << instruction.path;
        ++products;
      } else if (instruction.op == graph::Op::exchange_rows || instruction.op == graph::Op::scatter_rows) {
        EXPECT_LT(drawn[i].seconds, busiest * even[i].seconds) << instruction.path;
        sent += drawn[i].seconds > 1.05 * even[i].seconds ? 1 : 0;  // a small transfer takes little but latency
      } else if (instruction.op == graph::Op::einsum || instruction.op == graph::Op::attention || instruction.op == graph::Op::reshard) {
        EXPECT_EQ(drawn[i].seconds, even[i].seconds) << instruction.path;
      }
    }
    EXPECT_GE(products, 9);
    EXPECT_GE(sent, 2);
  }
}

TEST(Skew, IsNoLessThanZero) {
  const Outcome refused = outcome(kSpread + "--skew -0.5");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--skew -0.5: a router_skew of 0 or more was expected"));
}

TEST(Skew, WithoutItHalfADozenRowsAreUnevenAndManyAreEven) {
  const Json many = step_json(kSpread + "--skew 0");
  EXPECT_GT(figure(many, "expected_maximum", "busiest_by_mean"), 1.01);
  EXPECT_LT(figure(many, "expected_maximum", "busiest_by_mean"), 1.06);
  EXPECT_NEAR(many["seconds_per_step"].get<double>(), step_json(kSpread)["seconds_per_step"].get<double>(),
              0.06 * many["seconds_per_step"].get<double>());
  const Json few = step_json(kSpread + "--skew 0 max_target_length=4 per_device_batch_size=1");
  EXPECT_EQ(few["routing"]["mean_rows"], 8);
  EXPECT_GT(figure(few, "expected_maximum", "busiest_by_mean"), 1.4);
  EXPECT_THAT(outcome(kSpread + "--skew 0").out,
              AllOf(HasSubstr("Experts are drawn evenly, 2 of 8 a token; "), Not(HasSubstr("hottest together"))));
  EXPECT_FALSE(step_json(kSpread).contains("routing")) << "a model's own routers are taken to be even";
}

TEST(Skew, GrowsTheStepWithEachStepOfIt) {
  double seconds = 0;
  for (const char* skew : {"0", "0.5", "1", "2"}) {
    const Json step = step_json(kSpread + "--skew " + skew);
    EXPECT_GT(step["seconds_per_step"].get<double>(), seconds) << skew;
    seconds = step["seconds_per_step"].get<double>();
  }
}

TEST(Skew, TellsWhatABoundedBufferDrops) {
  const Json all = step_json(kSpread + "--skew 1");
  for (const std::string& request : {kSpread, kRing + "use_ragged_sort=true "}) {
    const Json step = step_json(request + "ragged_buffer_factor=1.25 --skew 1");
    EXPECT_TRUE(step["routing"]["bounded"].get<bool>());
    EXPECT_EQ(step["routing"]["room"], 2048 * 5 / 4);
    EXPECT_GT(figure(step, "expected_maximum", "overflows"), 0.9);
    EXPECT_GT(figure(step, "expected_maximum", "dropped"), 0.05);
    EXPECT_LT(figure(step, "expected_maximum", "dropped"), figure(step, "hottest_together", "dropped"));
    EXPECT_EQ(figure(step, "even_router", "dropped"), 0);
    EXPECT_THAT(outcome(request + "ragged_buffer_factor=1.25 --skew 1").out,
                AllOf(HasSubstr("A device has room for 2,560 rows (ragged_buffer_factor). In "), HasSubstr("what comes later is dropped"),
                      HasSubstr("has room for all in 99 of 100.")));
    // Rows that find no room are dropped and take no time.
    EXPECT_LT(step["seconds_per_step"].get<double>(), all["seconds_per_step"].get<double>());
  }
  // The buffer factor that the output names for 99 of 100 steps is enough.
  const double enough = figure(all, "expected_maximum", "in_99_of_100") + 0.01;
  const Json enough_room = step_json(kSpread + "--skew 1 ragged_buffer_factor=" + std::to_string(enough));
  EXPECT_LT(figure(enough_room, "expected_maximum", "overflows"), 0.015);
}

// Under FSDP alone with sparse experts, each device computes the rows of its own tokens.
TEST(Skew, CostsNothingWhereADeviceHasAllExperts) {
  const Json step = step_json(kFsdp + "--skew 2");
  EXPECT_EQ(step["routing"]["way"], "whole");
  EXPECT_EQ(figure(step, "expected_maximum", "busiest_by_mean"), 1);
  EXPECT_EQ(figure(step, "expected_maximum", "seconds_per_step"), figure(step, "even_router", "seconds_per_step"));
  EXPECT_THAT(outcome(kFsdp + "--skew 2").out, HasSubstr("Each device has all experts and the rows of its own tokens"));
}

// Dense experts, under FSDP alone and with experts sharded over devices.
TEST(Skew, CostsNothingWhereAllExpertsSeeAllTokens) {
  for (const std::string& request : {kFsdp, kSpread}) {
    const std::string line = request + "sparse_matmul=false per_device_batch_size=1 --skew 2";
    const Json step = step_json(line);
    EXPECT_EQ(step["routing"]["way"], "dense");
    EXPECT_EQ(figure(step, "expected_maximum", "dropped"), 0);
    EXPECT_EQ(figure(step, "hottest_together", "seconds_per_step"), figure(step, "even_router", "seconds_per_step"));
    EXPECT_THAT(outcome(line).out, HasSubstr("Every expert sees every token: no device has more to do than another"));
  }
}

// Experts with capacity slots, under FSDP alone and with experts sharded over devices.
TEST(Skew, DropsWhatFindsNoSlot) {
  for (const std::string& request : {kFsdp, kSpread}) {
    double dropped = -1;
    for (const char* skew : {"0", "0.5", "2"}) {
      const std::string line = request + "sparse_matmul=false capacity_factor=1.25 --skew " + skew;
      const Json step = step_json(line);
      EXPECT_EQ(step["routing"]["way"], "slots");
      EXPECT_EQ(step["routing"]["room"], 160);
      EXPECT_GT(figure(step, "expected_maximum", "dropped"), dropped) << skew;
      dropped = figure(step, "expected_maximum", "dropped");
      EXPECT_EQ(figure(step, "expected_maximum", "seconds_per_step"), figure(step, "even_router", "seconds_per_step"));
      EXPECT_THAT(outcome(line).out, HasSubstr("Each expert has 160 slots for a row of the batch"));
    }
    EXPECT_GT(dropped, 0.3);
  }
}

TEST(Skew, StandsBesideAnotherOne) {
  const Outcome made = outcome(kSpread + "--skew 0.5 --diff router_skew=2");
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("\nbusiest device, rows by the mean       1."));
  EXPECT_THAT(outcome(kSpread + "--diff steps=3").out, Not(HasSubstr("busiest device")));
}

TEST(Skew, StandsOnThePage) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/plan.html";
  EXPECT_EQ(outcome(kSpread + "--skew 1 --html " + path).code, 0);
  EXPECT_THAT(test::read_text(path), AllOf(HasSubstr("drawn by Zipf"), HasSubstr("router_skew=1")));
}

TEST(Skew, RefusesWhatIsNone) {
  for (const std::string bad : {"much", "-2", "101", "nan"}) {
    const Outcome made = outcome(kSpread + "--skew " + bad);
    EXPECT_EQ(made.code, 2) << bad;
    EXPECT_THAT(made.err, HasSubstr("router_skew")) << bad;
  }
  EXPECT_EQ(outcome(kSpread + "--skew").code, 2);
}

}  // namespace
}  // namespace moesh::cli
