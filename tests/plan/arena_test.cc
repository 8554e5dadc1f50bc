// Buffers that are needed at the same time share no byte, and the arena is not much larger than what is needed at once.
#include "plan/arena.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "graph/region.h"
#include "partition/partition.h"
#include "plan/lower.h"
#include "plan/print.h"
#include "tests/support.h"
#include "train/program.h"

namespace moesh::plan {
namespace {

const mesh::Mesh kFour({{"x", 4, 1}});

struct Extent {
  std::int64_t begin, end;
};

void expect_sound(const Plan& plan, const Arena& arena, const std::function<std::int64_t(const Buffer&)>& size) {
  const std::vector<Lifetime> lives = lifetimes_of(plan);
  std::vector<std::int64_t> live(plan.instructions.size() + 1);
  for (std::size_t a = 0; a < plan.buffers.size(); ++a) {
    if (plan.buffers[a].lasts == Lasts::from_run_to_run) continue;
    const Extent of_a{arena.offsets[a], arena.offsets[a] + size(plan.buffers[a])};
    EXPECT_LE(of_a.end, arena.bytes);
    for (InstructionId i = lives[a].first; i <= lives[a].last; ++i) live[static_cast<std::size_t>(i)] += of_a.end - of_a.begin;
    for (std::size_t b = 0; b < a; ++b) {
      if (plan.buffers[b].lasts == Lasts::from_run_to_run) continue;
      const Extent of_b{arena.offsets[b], arena.offsets[b] + size(plan.buffers[b])};
      const bool together = lives[a].first <= lives[b].last && lives[b].first <= lives[a].last;
      EXPECT_FALSE(together && of_a.begin < of_b.end && of_b.begin < of_a.end) << plan.buffers[a].name << " and " << plan.buffers[b].name;
    }
  }
  const std::int64_t needed = *std::max_element(live.begin(), live.end());
  EXPECT_GE(arena.bytes, needed);
  EXPECT_LE(static_cast<double>(arena.bytes), 1.1 * static_cast<double>(needed) + kAlignment * static_cast<double>(plan.buffers.size()));
}

class Arenas : public ::testing::TestWithParam<const char*> {};

TEST_P(Arenas, HoldWhatIsNeededAtOnce) {
  const auto session =
      test::session(std::string("override_model_config=true base_num_decoder_layers=3 compile_topology=v5p-16 ") + GetParam());
  const Plan plan = train::step_program(session.graph, session.loaded.settings, {session.layout, session.target}).plan;
  const auto on_device = [](const Buffer& buffer) { return buffer.bytes; };
  const auto in_process = [&](const Buffer& buffer) { return buffer.bytes * sharding::shards(buffer.distinct, plan.mesh); };
  expect_sound(plan, device_arena(plan), on_device);
  expect_sound(plan, pack(plan, in_process), in_process);
}

INSTANTIATE_TEST_SUITE_P(Of, Arenas,
                         ::testing::Values("model_name=llama2-7b ici_fsdp_parallelism=4 ici_tensor_parallelism=2",
                                           "model_name=mixtral-8x7b ici_expert_parallelism=4 ici_fsdp_parallelism=2",
                                           "model_name=deepseek3-tiny first_num_dense_layers=1 ici_expert_parallelism=4 "
                                           "ici_fsdp_parallelism=2 use_ring_of_experts=true num_moe_token_chunks=2"));

// The peak memory of one device, and of a process that has the shards of all four.
std::pair<std::int64_t, std::int64_t> peaks_of(const Plan& plan) {
  const auto in_process = [&](const Buffer& buffer) { return buffer.bytes * sharding::shards(buffer.distinct, plan.mesh); };
  return {device_arena(plan).bytes, pack(plan, in_process).bytes};
}

graph::Graph on_four(const graph::Graph& graph, const std::vector<sharding::Spec>& roots, const std::optional<sharding::Spec>& result) {
  const mesh::Topology target = mesh::find_topology("cpu-4", 1);
  const std::vector<config::AxisRule> rules;
  return partition::partition(graph, roots, {result}, {kFour, target, rules}).graph;
}

// A device has a quarter of the value and then all of it: first 4 KiB twice, then 4 and 16 KiB. In the process there are all quarters, and
// the whole value, which is the same on all devices, exists once.
TEST(Peaks, CountWhatIsGathered) {
  graph::Builder builder;
  builder.mark_result(graph::scale(builder.input("x", {64, 64}, DType::float32, {"", ""}), 2), "y");
  const sharding::Spec rows{{{0}, {}}, {}}, whole{{{}, {}}, {}};
  const graph::Graph graph = on_four(builder.take(), {rows}, whole);
  EXPECT_EQ(peaks_of(lower(graph, kFour)), (std::pair<std::int64_t, std::int64_t>((4 + 16) * 1024, (16 + 16) * 1024)));
}

// A device gathers 64 KiB of tokens, of which it has 16 KiB itself; the rows take the memory of these 16 KiB. Order and sizes take 64 bytes
// each. In the process the gathered tokens exist once for all four devices, and the orders of 32 bytes are adjacent.
TEST(Peaks, CountTheTokensThatRowsAreTakenFrom) {
  const sharding::Spec matrix{{{0}, {}}, {}}, vector{{{0}}, {}};
  graph::Builder builder;
  const graph::Tensor x = builder.input("x", {64, 256}, DType::float32, {"", ""});
  const graph::Tensor order = builder.input("order", {32}, DType::int32, {""}),
                      sizes = builder.input("sizes", {4}, DType::int32, {""});
  const auto body = [&](graph::Builder&, const std::vector<graph::Tensor>& in) {
    const graph::Tensor rows = graph::fetch_rows(in[0], {in[1], in[2], {}}, graph::group_of({0}, kFour));
    return std::vector<graph::RegionResult>{{rows, {32, 256}, matrix}};
  };
  builder.mark_result(
      graph::region(builder, "body", {}, {{x, matrix}, {order, vector}, {sizes, vector}}, kFour, body).front(), "rows");
  const graph::Graph graph = on_four(builder.take(), {matrix, vector, vector}, std::nullopt);
  EXPECT_EQ(peaks_of(lower(graph, kFour)),
            (std::pair<std::int64_t, std::int64_t>((16 + 64) * 1024 + 2 * 64, (4 * 16 + 64) * 1024 + 4 * 32 + 64)));
}

// A value that is made before a loop and read in it lives through all iterations; a value that an iteration makes does not.
TEST(Lifetimes, OfWhatALoopReadsAreWhole) {
  Plan plan;
  const auto add_buffer = [&](Lasts lasts) {
    plan.buffers.push_back({"", lasts, 64, {}});
    View view;
    view.buffer = static_cast<BufferId>(plan.buffers.size() - 1);
    view.shape = {16};
    plan.views.push_back(view);
    return static_cast<ViewId>(plan.views.size() - 1);
  };
  const auto add = [&](Instruction::Kind kind, std::vector<ViewId> operands, std::vector<ViewId> results, InstructionId other = -1) {
    Instruction made;
    made.kind = kind;
    made.operands = std::move(operands);
    made.results = std::move(results);
    made.other = other;
    plan.instructions.push_back(made);
  };
  using Kind = Instruction::Kind;
  const ViewId before = add_buffer(Lasts::within), inside = add_buffer(Lasts::within), out = add_buffer(Lasts::as_output);
  add(Kind::kernel, {}, {before});
  add(Kind::loop, {}, {}, 4);
  add(Kind::kernel, {before}, {inside});
  add(Kind::kernel, {inside}, {out});
  add(Kind::end, {}, {}, 1);
  const std::vector<Lifetime> lives = lifetimes_of(plan);
  EXPECT_EQ(lives[0].first, 0);
  EXPECT_EQ(lives[0].last, 4);
  EXPECT_EQ(lives[1].first, 2);
  EXPECT_EQ(lives[1].last, 3);
  EXPECT_EQ(lives[2].last, 5);
}

}  // namespace
}  // namespace moesh::plan
