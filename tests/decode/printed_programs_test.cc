// Decoding programs: their graphs survive printing and parsing, and their plans keep the plan's rules and survive saving and loading.
#include <set>

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/print.h"
#include "plan/compare.h"
#include "plan/file.h"
#include "plan/verify.h"
#include "tests/decode/decode_support.h"
#include "tests/graph/same_graph.h"

namespace moesh::decode {
namespace {

// The products that read a copy of a part of a weight. Collectives may.
std::string products_of_copies(const plan::Plan& plan) {
  std::set<plan::BufferId> weights;
  for (const plan::Port& port : plan.ports) {
    const bool is_cache = port.name.find("cache/") != std::string::npos;
    if (port.kind == plan::Port::Kind::state && !is_cache) weights.insert(plan.view(port.view).buffer);
  }
  std::set<plan::ViewId> copies;
  std::string products;
  for (const plan::Instruction& instruction : plan.instructions) {
    if (instruction.op == graph::Op::slice && weights.contains(plan.view(instruction.operands[0]).buffer))
      copies.insert(instruction.results[0]);
    if (instruction.op == graph::Op::einsum && copies.contains(instruction.operands[1])) products += instruction.path + " ";
  }
  return products;
}

void expect_sound(const std::string& request, std::int64_t new_tokens) {
  const session::Session session = test::session(test::with_whole_key_head(request));
  const Program program =
      make_program({session.loaded.settings, session.shape, 4, 1, &session.mesh}, {new_tokens, 24}, session.target);
  EXPECT_EQ(test::difference_of(program.graph, graph::parse_graph(graph::to_text(program.graph, &program.mesh)).graph), "");
  const plan::Plan plan = plan_of(program);
  EXPECT_EQ(plan::broken_rule(plan), "");
  EXPECT_EQ(products_of_copies(plan), "");
  EXPECT_EQ(plan::first_difference(plan::parse_file(plan::file_text(plan, {}), "a file").plan, plan), "");
}

TEST(PrintedPrograms, AreReadBackOnAnyMesh) {
  for (const test::SmallModel& model : test::small_models()) {
    for (const std::string mesh :
         {"compile_topology=cpu-1", "compile_topology=cpu-4 ici_fsdp_parallelism=2 ici_tensor_parallelism=2",
          "compile_topology=cpu-4 ici_fsdp_parallelism=1 ici_expert_parallelism=4",
          "compile_topology=cpu-4 ici_fsdp_parallelism=1 ici_expert_parallelism=4 custom_mesh_and_rule=ep-tp"}) {
      SCOPED_TRACE(model.family + " on " + mesh);
      expect_sound(test::kSmallWidths + model.request + mesh, 1);
      expect_sound(test::kSmallWidths + model.request + mesh, 8);
    }
  }
}

}  // namespace
}  // namespace moesh::decode
