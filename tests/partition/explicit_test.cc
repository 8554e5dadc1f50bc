// shard_mode=explicit takes the layouts that the operands have, and names the op whose operands disagree.
#include <functional>

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "partition/partition.h"
#include "tests/paths.h"
#include "tests/support.h"
#include "train/program.h"
#include "train/reference_run.h"

namespace moesh::partition {
namespace {

using graph::Builder;
using graph::Tensor;
using sharding::Spec;
using test::message_of;

const mesh::Mesh& two_axes() {
  static const mesh::Mesh mesh({{"x", 2, 1}, {"y", 2, 1}});
  return mesh;
}

const std::vector<config::AxisRule> kRules{{"rows", {"x"}, ""}, {"columns", {"y"}, ""}, {"wide", {"x"}, ""}};

// The error message of partitioning the graph that `build` makes of an input x[8, 8] and a parameter w[8, 8] with these layouts.
template <typename Build>
std::string message(const Spec& x_spec, const Spec& w_spec, Build build) {
  Builder builder;
  const Tensor x = builder.input("x", {8, 8}, DType::float32, {"", ""});
  const Tensor w = builder.parameter("w", {8, 8}, DType::float32, {{"", ""}, {}});
  builder.mark_result(build(builder, x, w));
  const graph::Graph graph = builder.take();
  const PartitionRequest request{two_axes(), mesh::find_topology("cpu-4", 1), kRules, true};
  return message_of([&] { partition(graph, {x_spec, w_spec}, {std::nullopt}, request); });
}

Tensor laid(Tensor x, const char* a, const char* b) { return graph::constrain("laid", x, Labels{a, b}); }

TEST(Explicit, AddsWhatLiesAlike) {
  EXPECT_EQ(message({{{0}, {}}, {}}, {{{}, {}}, {}},
                    [](Builder&, Tensor x, Tensor) { return graph::add(laid(x, "rows", ""), laid(x, "rows", "")); }),
            "no error");
}

TEST(Explicit, AWholeOperandAgreesWithAll) {
  EXPECT_EQ(message({{{0}, {}}, {}}, {{{}, {}}, {}},
                    [](Builder&, Tensor x, Tensor) { return graph::add(laid(x, "rows", ""), laid(x, "", "")); }),
            "no error");
}

TEST(Explicit, NamesTheOpAndTheTwoSpecs) {
  const std::string said = message({{{0}, {}}, {}}, {{{}, {}}, {}}, [](Builder&, Tensor x, Tensor) {
    return graph::add(laid(x, "rows", ""), laid(x, "columns", ""));
  });
  EXPECT_NE(said.find("shard_mode=explicit: the operands of binary do not agree: [8, 8] as [x, -] and [8, 8] as [y, -]"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("shard_mode=auto"), std::string::npos) << said;
}

TEST(Explicit, OneAxisCannotShardTwoIndicesOfAProduct) {
  const std::string said = message({{{0}, {}}, {}}, {{{}, {}}, {}}, [](Builder&, Tensor x, Tensor) {
    return graph::einsum("outer", "ab,cb->ac", laid(x, "rows", ""), laid(x, "wide", ""));
  });
  EXPECT_NE(said.find("the operands of einsum do not agree: [8, 8] as [x, -] and [8, 8] as [x, -]"), std::string::npos) << said;
}

TEST(Explicit, AConstraintOnTheResultSettlesIt) {
  EXPECT_EQ(message({{{0}, {}}, {}}, {{{}, {}}, {}},
                    [](Builder&, Tensor x, Tensor) {
                      return laid(graph::einsum("outer", "ab,cb->ac", laid(x, "rows", ""), laid(x, "wide", "")), "rows", "");
                    }),
            "no error");
}

TEST(Explicit, ParametersAreGatheredWhereActivationsUseTheirAxes) {
  EXPECT_EQ(message({{{0}, {}}, {}}, {{{}, {0}}, {}},
                    [](Builder&, Tensor x, Tensor w) { return graph::einsum("up", "ab,bc->ac", x, w); }),
            "no error");
}

train::StepProgram step_of(const std::vector<std::string>& request) {
  const session::Session session = session::open(request);
  const auto& settings = session.loaded.settings;
  return train::step_program(session.graph, settings, {session.layout, session.target});
}

TEST(Explicit, AcceptsTheRuleSets) {
  for (const std::string rules : {"", "pure-fsdp", "shard-exp-on-fsdp", "2d-fsdp", "ep-as-dp", "ep-as-cp", "cp-as-ep", "ep-tp",
                                  "fsdp-as-dp-for-attn"}) {
    for (const std::string model : {"mixtral-8x7b", "deepseek2-16b"}) {
      for (const std::string strategy : {"sparse_matmul=false", "sparse_matmul=true", "use_ring_of_experts=true"}) {
        std::vector<std::string> request{"model_name=" + model, "compile_topology=cpu-8", strategy, "shard_mode=explicit",
                                         "ici_fsdp_parallelism=-1"};
        if (!rules.empty()) request.push_back("custom_mesh_and_rule=" + rules);
        if (rules != "pure-fsdp") request.push_back("ici_expert_parallelism=2");
        EXPECT_EQ(message_of([&] { step_of(request); }), "no error") << rules << " " << model << " " << strategy;
      }
    }
  }
}

// A loss over a sharded vocabulary takes blocks of equal size only.
TEST(Explicit, NamesTheOpWhoseBlocksDiffer) {
  EXPECT_EQ(message_of([] {
              step_of({"model_name=llama2-7b", "max_target_length=16", "shard_mode=explicit", "compile_topology=cpu-3", "ici_fsdp_parallelism=1",
                       "ici_autoregressive_parallelism=3", "per_device_batch_size=1",
                       "logical_axis_rules=[[activation_vocab,[autoregressive]],[vocab,[]],[q_heads,[]],[kv_heads,[]],[heads,[]],[mlp,[]]]"});
            }),
            "cross_entropy/scores: shard_mode=explicit: vocab_scores takes blocks of equal size only, its operands lie unevenly: "
            "[3, 16, 32000] as [-, -, autoregressive], [3, 16] as [-, -]\n  fix: choose axis sizes that divide the dims, or shard_mode=auto");
}

// Eight rows are sharded over sixteen devices, and the result is wanted over another axis as well.
TEST(Explicit, TakesUnevenBlocksThatAnyOperandHas) {
  std::vector<std::string> request = train::read_reference_run((test::source_folder() / "tests/golden/models/deepseek2-groups").string()).request;
  for (const char* change : {"sparse_matmul=false", "capacity_factor=8", "moe_dispatch_no_expert_sharding=true", "custom_mesh_and_rule=shard-exp-on-fsdp",
                             "shard_mode=explicit", "compile_topology=cpu-32", "ici_data_parallelism=8", "ici_fsdp_parallelism=2",
                             "ici_expert_parallelism=2", "per_device_batch_size=0.25"}) {
    request.emplace_back(change);
  }
  EXPECT_EQ(message_of([&] { step_of(request); }), "no error");
}

// The error message of partitioning, over two axes, a graph with one op on x[8, 8] and counts[8].
std::string message_about(const std::function<Tensor(Tensor x, Tensor counts)>& op) {
  Builder builder;
  const Tensor x = builder.input("x", {8, 8}, DType::float32, {"", ""});
  const Tensor counts = builder.input("counts", {8}, DType::int32, {""});
  builder.mark_result(op(x, counts));
  const graph::Graph graph = builder.take();
  const PartitionRequest request{two_axes(), mesh::find_topology("cpu-4", 1), kRules};
  return message_of([&] { partition(graph, {{{{}, {}}, {}}, {{{}}, {}}}, {std::nullopt}, request); });
}

TEST(Partition, SaysWhatRunsOnOneDeviceOnly) {
  EXPECT_EQ(message_about([](Tensor x, Tensor) {
              return x.builder->add_one(graph::Op::stage_state, "made", {x}, graph::StageStateOf{1}, {8, 8}, DType::float32);
            }),
            "made: the stages of a pipeline run on one device so far, this mesh has 4\n  fix: ici_pipeline_parallelism=1");
}

TEST(Partition, SaysWhatCannotBeSpread) {
  const std::string said = message_about([](Tensor x, Tensor counts) {
    return x.builder->add_one(graph::Op::fetch_rows, "made", {x, counts, counts}, graph::GroupOf{}, {8, 8}, DType::float32);
  });
  EXPECT_NE(said.find("fetch_rows cannot be spread over devices yet"), std::string::npos) << said;
}

}  // namespace
}  // namespace moesh::partition
