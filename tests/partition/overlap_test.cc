// Tests the order in which chunks of tokens go through the experts, and that it changes no result.
#include "partition/overlap.h"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "forecast/forecast.h"
#include "graph/facts.h"
#include "graph/print.h"
#include "graph/rewrite.h"
#include "graph/work.h"
#include "tests/support.h"
#include "train/graph_passes.h"
#include "train/program.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;

const std::string kModel =
    "override_model_config=true model_name=deepseek3-tiny base_num_decoder_layers=2 first_num_dense_layers=1 compile_topology=cpu-4 "
    "ici_fsdp_parallelism=1 ici_expert_parallelism=4 per_device_batch_size=1 max_target_length=32 base_emb_dim=32 vocab_size=64 ";

std::map<std::string, Graph> passes_of(const std::string& request) {
  const auto session = test::session(kModel + request);
  std::map<std::string, Graph> seen;
  train::step_program(session.graph, session.loaded.settings, {session.layout, session.target}, {},
                      [&](std::string_view pass, const Graph& graph) { seen.emplace(pass, graph); });
  return seen;
}

// The bodies of all regions, the forward pass first.
void find_regions(const Graph& graph, std::vector<graph::RegionOf>& found) {
  for (const Node& node : graph.nodes) {
    if (const auto* region = std::get_if<graph::RegionOf>(&node.attributes)) found.push_back(*region);
    if (const auto* repeat = std::get_if<graph::RepeatOf>(&node.attributes)) find_regions(*repeat->body, found);
  }
}

std::vector<graph::RegionOf> regions_of(const Graph& graph) {
  std::vector<graph::RegionOf> found;
  find_regions(graph, found);
  return found;
}

bool sends_rows(const Node& node) {
  return graph::collective_of(node) && (node.op == graph::Op::exchange_rows || node.op == graph::Op::scatter_rows);
}

// The nodes without where they stand: each with all that it depends on.
std::multiset<std::string> expressions_of(const Graph& graph) {
  std::vector<std::string> of_value(graph.values.size());
  std::multiset<std::string> all;
  for (const Node& node : graph.nodes) {
    std::size_t hash = std::hash<std::string>{}(std::string(graph::name_of(node.op)) + node.path + node.tag);
    for (const graph::ValueId id : node.operands) hash = hash * 31 + std::hash<std::string>{}(of_value[static_cast<std::size_t>(id)]);
    for (std::size_t i = 0; i < node.results.size(); ++i)
      of_value[static_cast<std::size_t>(node.results[i])] = std::to_string(hash) + "." + std::to_string(i);
    all.insert(std::to_string(hash));
  }
  for (const graph::ValueId id : graph.results) all.insert("result " + of_value[static_cast<std::size_t>(id)]);
  return all;
}

// How many products, at most, wait at once for something that was sent and that they are the first to need.
std::size_t most_products_waited_for(const Graph& body) {
  const auto users = graph::users_of(body);
  std::size_t most = 0;
  std::set<NodeId> waiting;
  for (std::size_t i = 0; i < body.nodes.size(); ++i) {
    const Node& node = body.nodes[i];
    waiting.erase(static_cast<NodeId>(i));
    if (sends_rows(node)) {
      for (const NodeId user : users[static_cast<std::size_t>(node.results[0])]) {
        if (static_cast<std::size_t>(user) < body.nodes.size() && is_product(body.node(user))) {
          waiting.insert(user);
          break;
        }
      }
    }
    most = std::max(most, waiting.size());
  }
  return most;
}

class Chunks : public ::testing::TestWithParam<std::string> {};

TEST_P(Chunks, OverlapWithoutAnotherNode) {
  const auto seen = passes_of(GetParam());
  const auto before = regions_of(seen.at("chain")), after = regions_of(seen.at("overlap"));
  ASSERT_EQ(before.size(), after.size());
  ASSERT_GE(after.size(), 2u);
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_TRUE(after[i].overlaps);
    EXPECT_EQ(expressions_of(*before[i].body), expressions_of(*after[i].body));
    EXPECT_TRUE(graph::to_text(*before[i].body) != graph::to_text(*after[i].body));
    for (std::size_t n = 0; n < after[i].body->nodes.size(); ++n) {
      for (const graph::ValueId id : after[i].body->nodes[n].operands)
        EXPECT_LT(static_cast<std::size_t>(after[i].body->value(id).producer), n);
    }
    EXPECT_LE(most_products_waited_for(*after[i].body), 3u);  // of this chunk and of the next
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Chunks,
                         ::testing::Values("num_moe_token_chunks=2", "num_moe_token_chunks=8", "num_moe_emb_chunks=4",
                                           "num_moe_token_chunks=4 use_ring_of_experts=true",
                                           "num_moe_token_chunks=2 num_moe_emb_chunks=2 remat_policy=minimal"));

TEST(Overlap, SendsRowsOfTheNextChunkBeforeTheExpertsOfThisOne) {
  const auto region = regions_of(passes_of("num_moe_token_chunks=4").at("overlap")).front();
  std::string order;
  for (const Node& node : region.body->nodes) {
    if (node.op == graph::Op::exchange_rows) order += std::get<graph::GroupOf>(node.attributes).back ? '<' : '>';
    if (is_product(node)) order += '*';
  }
  EXPECT_EQ(order, ">>***<>***<>***<***<");
}

TEST(Overlap, ChangesNothingWhereItIsNotAskedFor) {
  for (const std::string request : {"num_moe_token_chunks=1", "num_moe_token_chunks=2 moe_chunk_barrier=true"}) {
    const auto seen = passes_of(request);
    EXPECT_EQ(graph::to_text(seen.at("chain")), graph::to_text(seen.at("overlap")));
    EXPECT_FALSE(regions_of(seen.at("overlap")).front().overlaps);
  }
}

// The wire is hidden behind products, for the memory of one more chunk.
TEST(Overlap, IsForecastToTakeLessTime) {
  const std::string request =
      "model_name=deepseek3-671b base_num_decoder_layers=5 first_num_dense_layers=1 compile_topology=v5p-128 ici_fsdp_parallelism=2 "
      "ici_expert_parallelism=32 per_device_batch_size=4 override_model_config=true num_moe_token_chunks=4 ragged_buffer_factor=1.5 ";
  for (const std::string way : {"", "use_ring_of_experts=true use_ragged_sort=true "}) {
    const auto forecast_of = [&](const std::string& more) {
      const auto session = test::session(request + way + more);
      const auto program = train::step_program(session.graph, session.loaded.settings, {session.layout, session.target});
      return forecast::forecast(program.plan, session.layout, session.target, {}, {});
    };
    const auto overlapping = forecast_of(""), apart = forecast_of("moe_chunk_barrier=true");
    EXPECT_LT(overlapping.seconds, 0.95 * apart.seconds) << way;
    EXPECT_GT(overlapping.memory.peak, apart.memory.peak) << way;
    EXPECT_LT(static_cast<double>(overlapping.memory.peak), 1.1 * static_cast<double>(apart.memory.peak)) << way;
  }
}

}  // namespace
}  // namespace moesh::partition
