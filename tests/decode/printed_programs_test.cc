// Decoding programs: their graphs survive printing and parsing, and their plans keep the plan's rules and survive saving and loading.
#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/print.h"
#include "plan/compare.h"
#include "plan/file.h"
#include "plan/lower.h"
#include "plan/verify.h"
#include "tests/decode/decode_support.h"
#include "tests/graph/same_graph.h"

namespace moesh::decode {
namespace {

void expect_sound(const std::string& request, std::int64_t new_tokens) {
  const session::Session session = test::session(test::with_whole_key_head(request));
  const Program program =
      make_program({session.loaded.settings, session.shape, 4, 1, &session.mesh}, {new_tokens, 24}, session.target);
  EXPECT_EQ(test::difference_of(program.graph, graph::parse_graph(graph::to_text(program.graph, &program.mesh)).graph), "");
  const plan::Plan plan = plan::lower(program.graph, program.mesh);
  EXPECT_EQ(plan::broken_rule(plan), "");
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
