// Training steps of all families on drawn layouts: the graph after each pass survives printing and parsing,
// and the plan keeps the plan's rules and survives saving and loading.
#include <set>

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/print.h"
#include "plan/compare.h"
#include "plan/file.h"
#include "plan/verify.h"
#include "tests/config/small_models.h"
#include "tests/graph/same_graph.h"
#include "tests/layout_draws.h"
#include "train/program.h"
#include "train/saved_plan.h"

namespace moesh::train {
namespace {

void expect_read_back(std::string_view pass, const graph::Graph& graph, const mesh::Mesh& mesh) {
  const auto named = std::find_if(graph_passes().begin(), graph_passes().end(), [&](const GraphPass& one) { return one.name == pass; });
  ASSERT_NE(named, graph_passes().end()) << pass;
  const graph::ParsedGraph parsed = graph::parse_graph(graph::to_text(graph, named->says_layouts ? &mesh : nullptr));
  EXPECT_EQ(test::difference_of(graph, parsed.graph), "") << "after " << pass;
}

void expect_sound(const std::vector<std::string>& request) {
  const session::Session session = session::open(request);
  std::vector<std::string_view> seen;
  const StepProgram step = step_program(session.graph, session.loaded.settings, {session.layout, session.target}, {},
                                        [&](std::string_view pass, const graph::Graph& graph) {
                                          seen.push_back(pass);
                                          expect_read_back(pass, graph, session.mesh);
                                        });
  EXPECT_EQ(seen.size(), graph_passes().size());
  EXPECT_EQ(plan::broken_rule(step.plan), "");
  const plan::Origin origin = origin_of(session.loaded.settings, session.target);
  const std::string text = plan::file_text(step.plan, origin);
  const plan::SavedPlan saved = plan::parse_file(text, "a file");
  EXPECT_EQ(saved.origin, origin);
  EXPECT_EQ(plan::first_difference(saved.plan, step.plan), "");
  EXPECT_EQ(plan::file_text(saved.plan, saved.origin), text);
}

std::vector<std::string> families() {
  return {test::kLlama,
          test::kQwen,
          test::kSparse,
          test::kRing,
          test::kDense,
          test::kSlots,
          test::kGptOss,
          test::kDeepseek,
          test::kYarn,
          test::kStreams,
          test::kStreams + "enable_mhc_lite=true scan_layers=false",
          test::kSparse + "opt_type=muon gradient_accumulation_steps=2",
          test::kDeepseek + "routed_bias_update_rate=0.1 scan_layers=false opt_type=adam_pax",
          test::kLlama + "opt_type=sgd remat_policy=minimal logits_via_embedding=true"};
}

TEST(PrintedSteps, AreReadBackOnOneDevice) {
  for (const std::string& family : families()) {
    SCOPED_TRACE(family);
    expect_sound(test::words_of(family));
  }
}

// The partitioner refuses draws that cannot be laid out; most of them can.
TEST(PrintedStepsSlow, AreReadBackOnDrawnLayouts) {
  const std::uint64_t draws = test::sweep_draws(200), seed = test::sweep_setting("MOESH_SWEEP_SEED", 1);
  int sound = 0, refused = 0;
  for (std::uint64_t i = 0; i < draws; ++i) {
    test::LayoutDraw draw(seed, i);
    std::vector<std::string> request =
        test::words_of(draw.one_of(families()) +
                       " base_emb_dim=16 base_num_query_heads=8 base_num_kv_heads=4 vocab_size=32 max_target_length=16");
    for (std::string& word : draw.changes(test::traits_of(session::open(request)))) request.push_back(std::move(word));
    SCOPED_TRACE(fmt::format("draw {}: {}", i, join(request, " ")));
    try {
      expect_sound(request);
      ++sound;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(sound, refused);
}

// The passes run in the order in which they are listed, and each has a sentence on what holds before it and one on what holds after it.
TEST(GraphPasses, AreRunAsTheyAreListed) {
  for (const std::string devices :
       {"compile_topology=cpu-1", "compile_topology=cpu-4 per_device_batch_size=1 max_target_length=16"}) {
    const session::Session session = test::session(test::kSparse + "base_emb_dim=16 vocab_size=32 " + devices);
    std::vector<std::string_view> seen, listed;
    step_program(session.graph, session.loaded.settings, {session.layout, session.target}, {},
                 [&](std::string_view pass, const graph::Graph&) { seen.push_back(pass); });
    for (const GraphPass& pass : graph_passes()) {
      listed.push_back(pass.name);
      EXPECT_TRUE(pass.before.ends_with('.') && pass.after.ends_with('.')) << pass.name;
    }
    EXPECT_EQ(seen, listed);
  }
}

}  // namespace
}  // namespace moesh::train
