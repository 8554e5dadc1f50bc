// Tests that parts of a batch take turns in a plan without another instruction or result, and that this hides the wire.
#include "plan/alternate.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "forecast/forecast.h"
#include "graph/parts.h"
#include "graph/work.h"
#include "plan/lower.h"
#include "plan/print.h"
#include "tests/plan/plan_support.h"
#include "tests/support.h"

namespace moesh::plan {
namespace {

const std::string kTurns =
    "model_name=deepseek3-tiny override_model_config=true base_num_decoder_layers=3 first_num_dense_layers=1 compile_topology=cpu-4 "
    "ici_fsdp_parallelism=1 ici_expert_parallelism=4 per_device_batch_size=4 max_target_length=32 base_emb_dim=32 vocab_size=64 "
    "use_batch_split_schedule=true ";

// What each instruction reads and writes, as what wrote it before: equal for two plans in which the same instructions work on the same
// content.
std::multiset<std::string> works_of(const Plan& plan) {
  std::map<BufferId, std::string> content;
  std::multiset<std::string> works;
  for (const Instruction& instruction : plan.instructions) {
    std::string read = instruction.path + std::string(graph::name_of(instruction.op));
    for (const ViewId id : instruction.operands) {
      read += " " + content[plan.view(id).buffer];
      if (plan.view(id).rows >= 0) read += "#" + content[plan.view(plan.view(id).rows).buffer];
    }
    for (const ViewId id : instruction.results) read += " over " + content[plan.view(id).buffer];
    const std::string hash = std::to_string(std::hash<std::string>{}(read));
    for (std::size_t i = 0; i < instruction.results.size(); ++i) content[plan.view(instruction.results[i]).buffer] = hash + "." + std::to_string(i);
    works.insert(hash);
  }
  for (const ViewId id : plan.results) works.insert("result " + content[plan.view(id).buffer]);
  return works;
}

struct Planned {
  Plan before, after;
};

Planned with_and_without(const std::string& request) {
  const session::Session session = test::session(request);
  const train::StepProgram program = train::step_program(session.graph, session.loaded.settings, {session.layout, session.target});
  return {lower(program.graph, program.mesh), program.plan};
}

class Alternating : public ::testing::TestWithParam<std::string> {};

TEST_P(Alternating, KeepsInstructionsAndWhatTheyWorkOn) {
  const Planned of = with_and_without(kTurns + GetParam());
  EXPECT_EQ(works_of(of.before), works_of(of.after));
  EXPECT_NE(to_text(of.before), to_text(of.after));
  for (std::size_t i = 0; i < of.after.instructions.size(); ++i) {
    const Instruction& instruction = of.after.instructions[i];
    if (instruction.kind != Instruction::Kind::loop) continue;
    EXPECT_EQ(of.after.instructions[static_cast<std::size_t>(instruction.other)].other, static_cast<InstructionId>(i));
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Alternating,
                         ::testing::Values("batch_split_factor=2", "batch_split_factor=4", "batch_split_factor=2 use_ring_of_experts=true",
                                           "batch_split_factor=2 scan_layers=false", "batch_split_factor=2 num_moe_token_chunks=2",
                                           "batch_split_factor=2 remat_policy=everything", "batch_split_factor=2 remat_policy=minimal",
                                           "batch_split_factor=2 gradient_accumulation_steps=2 shared_experts=1",
                                           "batch_split_factor=2 ici_fsdp_parallelism=2 ici_expert_parallelism=2",
                                           "batch_split_factor=2 mtp_num_layers=1 use_random_routing=true",
                                           "batch_split_factor=2 remat_policy=minimal_offloaded"));

// Sends of rows as > and <, the experts' products as *, and those of the rest of a layer, all that follow each other, as +, each with its
// part: "0+0>1+1>0*0*0*0<".
std::string order_of(const Plan& plan, const std::string& loop) {
  std::string order;
  InstructionId end = -1;
  for (std::size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& instruction = plan.instructions[i];
    if (instruction.kind == Instruction::Kind::loop && instruction.path == loop) end = instruction.other;
    const bool sends = instruction.op == graph::Op::exchange_rows;
    if (static_cast<InstructionId>(i) >= end || (!sends && !graph::is_product(instruction.op))) continue;
    const bool is_of_experts = instruction.path.find("/experts") != std::string::npos;
    if (!is_of_experts && order.size() > 1 && order.back() == '+' && order[order.size() - 2] - '0' == graph::part_of(instruction.path)) continue;
    order += std::to_string(graph::part_of(instruction.path));
    order += !sends ? (is_of_experts ? '*' : '+') : std::get<graph::GroupOf>(instruction.attributes).back ? '<' : '>';
  }
  return order;
}

TEST(Alternate, SendsThePartsOneAfterTheOther) {
  EXPECT_EQ(order_of(with_and_without(kTurns + "batch_split_factor=2").after, "decoder/moe_layers"), "0+0>1+1>0*0*0*0<1*1*1*1<0+1+");
  EXPECT_EQ(order_of(with_and_without(kTurns + "batch_split_factor=4").after, "decoder/moe_layers"),
            "0+0>1+1>2+2>3+3>0*0*0*0<1*1*1*1<2*2*2*2<3*3*3*3<0+1+2+3+");
}

// A part recomputes its attention while the rows of the other are sent. Between what an expert needs and its products stands the other part,
// and what is sent last has gradients of weights and attention behind it.
TEST(Alternate, HidesTheRowsOfTheBackwardPassToo) {
  EXPECT_EQ(order_of(with_and_without(kTurns + "batch_split_factor=2").after, "decoder/moe_layers'"),
            "0+0>0>1+1>1>0+0*0*0*0<0*1+1*1*1*1<1*0*0*0*0<0*0*1*1*1*1<1*1*0+1+");
}

TEST(Alternate, ChangesNothingOfAPlanWithoutParts) {
  for (const std::string request : {"batch_split_factor=1", "use_batch_split_schedule=false batch_split_factor=2"}) {
    const Planned of = with_and_without(kTurns + request);
    EXPECT_EQ(to_text(of.before), to_text(of.after));
  }
}

forecast::Forecast forecast_of(const std::string& request) {
  const session::Session session = test::session(request);
  const auto program = train::step_program(session.graph, session.loaded.settings, {session.layout, session.target});
  return forecast::forecast(program.plan, session.layout, session.target, {}, {});
}

// With chunks of the tokens, rows are hidden behind experts only; with parts of the batch, behind attention too.
TEST(Alternate, IsForecastToTakeLessTimeThanChunks) {
  const std::string request =
      "model_name=deepseek3-671b base_num_decoder_layers=5 first_num_dense_layers=1 compile_topology=v5p-128 ici_fsdp_parallelism=2 "
      "ici_expert_parallelism=32 per_device_batch_size=4 override_model_config=true ragged_buffer_factor=1.5 "
      "logical_axis_rules=[[expert_only,[expert]]] ";
  const auto exposed = [&](const std::string& more) {
    double sum = 0;
    for (const forecast::Sent& sent : forecast_of(request + more).collectives) sum += sent.what.in_region ? sent.exposed : 0;
    return sum;
  };
  const double whole = exposed(""), chunks = exposed("num_moe_token_chunks=4");
  EXPECT_LT(chunks, 0.5 * whole);
  EXPECT_LT(exposed("use_batch_split_schedule=true batch_split_factor=2"), 0.3 * chunks);
}

// In layers that are written out, a part that waits does not go on into layers that the other has not reached.
TEST(Alternate, DoesNotRunAheadOfLayers) {
  const std::string request =
      "model_name=deepseek3-671b base_num_decoder_layers=9 first_num_dense_layers=1 compile_topology=v5p-128 ici_fsdp_parallelism=2 "
      "ici_expert_parallelism=32 per_device_batch_size=4 override_model_config=true ragged_buffer_factor=1.5 scan_layers=false "
      "logical_axis_rules=[[expert_only,[expert]]] ";
  const auto whole = forecast_of(request), split = forecast_of(request + "use_batch_split_schedule=true batch_split_factor=2");
  EXPECT_LT(split.seconds, 0.9 * whole.seconds);
  EXPECT_LT(static_cast<double>(split.memory.peak), 1.15 * static_cast<double>(whole.memory.peak));
}

}  // namespace
}  // namespace moesh::plan
