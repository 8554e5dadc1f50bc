// Tests what becomes of loops of one iteration, and what they gather.
#include "partition/single_loops.h"

#include <set>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "advice/planned.h"
#include "graph/parse.h"
#include "graph/print.h"
#include "tests/config/small_models.h"
#include "tests/train/trainer_support.h"

namespace moesh::partition {
namespace {

std::string without_loops(const std::string& text) { return graph::to_text(without_single_loops(graph::parse_graph(text).graph)); }

// A loop over as many slices of w.
std::string loop_of(int count) {
  return fmt::format(
      "%0: float32[2] = input labels=(-)  # x\n"
      "%1: float32[{0}, 2] = input labels=(-, -)  # w\n"
      "%2: float32[2], %3: float32[{0}, 2] = repeat %0, %1 sizes=[{0}] labels=(layers) carried=1 slices=[0] stacks=[0]  # layers\n"
      "  %0: float32[2] = input labels=(-)  # layers/carried\n"
      "  %1: float32[2] = input labels=(-)  # layers/w\n"
      "  %2: float32[2] = binary %0, %1 function=multiply  # layers/product\n"
      "  return %2, %0\n"
      "return %2 as y, %3 as saved\n",
      count);
}

TEST(SingleLoops, StandAsTheirNodes) {
  EXPECT_EQ(without_loops(loop_of(1)),
            "%0: float32[2] = input labels=(-)  # x\n"
            "%1: float32[1, 2] = input labels=(-, -)  # w\n"
            "%2: float32[2] = reshape %1  # layers/w\n"
            "%3: float32[2] = binary %0, %2 function=multiply  # layers/product\n"
            "%4: float32[1, 2] = reshape %0  # layers/carried\n"
            "return %3 as y, %4 as saved\n");
  EXPECT_EQ(without_loops(loop_of(2)), loop_of(2));
}

std::set<std::int64_t> counts_of_loops(const plan::Plan& plan) {
  std::set<std::int64_t> counts;
  for (const plan::Instruction& instruction : plan.instructions) {
    if (instruction.kind == plan::Instruction::Kind::loop) counts.insert(instruction.count);
  }
  return counts;
}

// How many gathers the plan has for these layers.
std::int64_t gathers(const plan::Plan& plan, const std::string& layers) {
  std::int64_t count = 0;
  for (const plan::Instruction& instruction : plan.instructions) {
    const auto* reshard = std::get_if<graph::ReshardOf>(&instruction.attributes);
    if (reshard == nullptr || reshard->kind != graph::ReshardOf::Kind::all_gather) continue;
    if (instruction.path.starts_with(layers + "/")) ++count;
  }
  return count;
}

TEST(SingleLoops, GatherWeightsOnceForBothPasses) {
  const std::string request =
      "model_name=deepseek2-16b override_model_config=true base_num_decoder_layers=3 compile_topology=v5p-8 ici_fsdp_parallelism=4 ";
  const plan::Plan once = advice::plan_step(test::words_of(request)).step.program.plan;
  const plan::Plan twice = advice::plan_step(test::words_of(request + "first_num_dense_layers=2 base_num_decoder_layers=4")).step.program.plan;
  EXPECT_EQ(counts_of_loops(once), std::set<std::int64_t>{2});
  EXPECT_EQ(gathers(once, "decoder/dense_layers") * 2, gathers(twice, "decoder/dense_layers"));
  EXPECT_GT(gathers(once, "decoder/dense_layers"), 6);
}

// What several layers share, such as positions, is gathered for the first.
TEST(SingleLoops, TrainAsOnOneDevice) {
  const std::string of_one_layer = "dtype=float32 max_target_length=16 base_num_kv_heads=2 base_num_query_heads=4 base_emb_dim=16 ";
  for (const std::string& model :
       {test::kLlama + "base_num_decoder_layers=1 ", test::kSparse + "base_num_decoder_layers=1 ", test::kDeepseek, test::kLlama4,
        test::kOlmo3, test::kQwenNext, test::kSlots + "base_num_decoder_layers=1 ",
        test::kDeepseek + "gradient_accumulation_steps=2 ", test::kDeepseek + "remat_policy=minimal "}) {
    const std::string request = model + of_one_layer;
    const double one = test::second_loss_of(request + "compile_topology=cpu-1 per_device_batch_size=4");
    for (const std::string mesh : {"ici_fsdp_parallelism=4 ", "ici_fsdp_parallelism=2 ici_context_parallelism=2 ",
                                   "ici_fsdp_parallelism=2 ici_tensor_parallelism=2 ", "ici_fsdp_parallelism=2 ici_data_parallelism=2 "}) {
      EXPECT_NEAR(test::second_loss_of(request + "compile_topology=cpu-4 per_device_batch_size=1 " + mesh), one, 5e-6) << model << mesh;
    }
  }
}

}  // namespace
}  // namespace moesh::partition
