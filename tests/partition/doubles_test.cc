// Tests that loops neither stack, take nor move a value twice.
#include "partition/doubles.h"

#include <set>

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/print.h"
#include "graph/rewrite.h"
#include "tests/config/small_models.h"
#include "train/graph_passes.h"
#include "train/program.h"

namespace moesh::partition {
namespace {

using graph::RepeatOf;

TEST(Doubles, AreStackedTakenAndMovedOnce) {
  const std::string of_inputs =
      "mesh {fsdp=2}\n"
      "%0: float32[2] as [(fsdp)] = input labels=(-)  # x\n"
      "%1: float32[3, 2] as [-, (fsdp)] = input labels=(-, -)  # w\n";
  const std::string first = " sizes=[3] labels=(layers) carried=1 slices=[0] stacks=[";
  const std::string body =
      "  %0: float32[2] as [(fsdp)] = input labels=(-)  # carried\n"
      "  %1: float32[2] as [(fsdp)] = input labels=(-)  # w\n"
      "  %2: float32[2] as [(fsdp)] = binary %0, %1 function=multiply  # product\n";
  const std::string later = "  %0: float32[2] as [(fsdp)] = input labels=(-)  # carried\n  %1: float32[2] as [(fsdp)] = input labels=(-)  # q\n";
  const std::string gather = "float32[2] as [-] = reshard %";
  const graph::Graph with_doubles =
      graph::parse_graph(
          of_inputs + "%2: float32[2] as [(fsdp)], %3: float32[3, 2] as [-, (fsdp)], %4: float32[3, 2] as [-, (fsdp)] = repeat %0, %1" + first +
          "0, 0]  # layers\n" + body + "  return %2, %2, %2\n" +
          "%5: float32[2] as [(fsdp)], %6: float32[3, 2] as [-, -] = repeat %2, %3, %4 sizes=[3] labels=(layers) carried=1 slices=[0, 0] "
          "stacks=[0]  # later\n" +
          later + "  %2: float32[2] as [(fsdp)] = input labels=(-)  # kv\n" + "  %3: " + gather + "1 kind=all-gather axes=(fsdp) from=0  # q\n" +
          "  %4: " + gather + "2 kind=all-gather axes=(fsdp) from=0  # kv\n" + "  %5: float32[2] as [-] = binary %3, %4 function=add  # sum\n" +
          "  return %0, %5\n" + "return %5 as y, %6 as sums\n")
          .graph;
  const std::string expected = of_inputs + "%2: float32[2] as [(fsdp)], %3: float32[3, 2] as [-, (fsdp)] = repeat %0, %1" + first +
                               "0]  # layers\n" + body + "  return %2, %2\n" +
                               "%4: float32[2] as [(fsdp)], %5: float32[3, 2] as [-, -] = repeat %2, %3 sizes=[3] labels=(layers) carried=1 "
                               "slices=[0] stacks=[0]  # later\n" +
                               later + "  %2: " + gather + "1 kind=all-gather axes=(fsdp) from=0  # q\n" +
                               "  %3: float32[2] as [-] = binary %2, %2 function=add  # sum\n" + "  return %0, %3\n" +
                               "return %4 as y, %5 as sums\n";
  EXPECT_EQ(graph::to_text(without_doubles(with_doubles)), graph::to_text(graph::parse_graph(expected).graph));
}

// What loops of the graph, and those in their bodies, stack or take twice.
int doubles_in(const graph::Graph& graph) {
  int count = 0;
  for (const graph::Node& node : graph.nodes) {
    const auto* of = std::get_if<RepeatOf>(&node.attributes);
    if (of == nullptr) continue;
    std::set<std::pair<graph::ValueId, int>> stacked, taken;
    for (std::size_t i = 0; i < of->stacks.size(); ++i) {
      if (!stacked.emplace(of->body->results[static_cast<std::size_t>(of->carried) + i], of->stacks[i]).second) ++count;
    }
    const std::size_t first_slice = node.operands.size() - of->slices.size();
    for (std::size_t i = 0; i < of->slices.size(); ++i) {
      if (!taken.emplace(node.operands[first_slice + i], of->slices[i]).second) ++count;
    }
    count += doubles_in(*of->body);
  }
  return count;
}

TEST(Doubles, AreInNoStep) {
  for (const std::string& model : {test::kLlama, test::kGemma2, test::kSparse, test::kDeepseek, test::kQwenNext, test::kOlmo3}) {
    for (const std::string remat : {"everything", "minimal", "full"}) {
      for (const std::string mesh : {"ici_fsdp_parallelism=2 ici_tensor_parallelism=2", "ici_fsdp_parallelism=4"}) {
        const session::Session session =
            test::session(model + "base_num_query_heads=4 base_num_kv_heads=4 vocab_size=24 base_emb_dim=16 max_target_length=8 " +
                          "per_device_batch_size=1 compile_topology=cpu-4 remat_policy=" + remat + " " + mesh);
        train::step_program(session.graph, session.loaded.settings, {session.layout, session.target}, {},
                            [&](std::string_view pass, const graph::Graph& graph) {
                              if (pass != train::pass_names::stack) return;
                              EXPECT_EQ(doubles_in(graph), 0) << model << remat << " " << mesh;
                            });
      }
    }
  }
}

}  // namespace
}  // namespace moesh::partition
