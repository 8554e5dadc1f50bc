// What a remat policy saves of the experts is not computed again, takes memory, and changes no number.
#include "train/remat.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <gmock/gmock.h>

#include "partition/collectives.h"
#include "tests/config/small_models.h"
#include "tests/nn/nodes.h"
#include "tests/train/train_support.h"
#include "tests/train/trainer_support.h"
#include "train/graph_passes.h"
#include "train/program.h"
#include "train/step.h"

namespace moesh::train {
namespace {

using test::kTinyMixtral;
using test::outcome_of;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kExperts =
    kTinyMixtral +
    "max_target_length=8 num_experts=4 vocab_size=24 base_num_query_heads=4 base_num_kv_heads=4 "
    "per_device_batch_size=2 base_emb_dim=16 base_mlp_dim=16 base_moe_mlp_dim=16 ";
const std::string kRing = "sparse_matmul=true use_ring_of_experts=true ";
const std::string kAllToAll = "sparse_matmul=true use_ring_of_experts=false ";
const std::string kDense = "sparse_matmul=false ";
const std::string kCapacity = "sparse_matmul=false capacity_factor=1.25 ";
const std::string kMesh = "compile_topology=cpu-8 ici_fsdp_parallelism=2 ici_expert_parallelism=4 ";

std::int64_t count(const graph::Graph& graph, graph::Op op, const std::string& at) {
  std::int64_t found = 0;
  for (const graph::Node& node : graph.nodes) {
    if (node.op == op && node.path.find(at) != std::string::npos) ++found;
    if (const graph::Graph* body = graph::body_of(node)) found += count(*body, op, at);
  }
  return found;
}

StepProgram program(const std::string& request) {
  const session::Session session = test::session(request);
  return step_program(session.graph, session.loaded.settings, {session.layout, session.target});
}

struct Case {
  std::string policy;
  std::int64_t again;  // how many of the three products of a layer's experts are computed twice
};

// On sparse paths MaxText names the second input projection only moe_mlpwi_1.
const std::vector<Case>& sparse_cases() {
  static const std::vector<Case> all{
      {"full", 3},
      {"custom moe_mlpwi_0=device", 2},
      {"custom moe_mlpwi_1=device", 2},
      {"custom moe_mlpwo=device", 2},
      {"custom mlpwi_0=device", 2},
      {"custom mlpwi_1=device", 3},
      {"custom mlpwo=device", 2},
      {"custom moe_mlpwi_0=device moe_mlpwi_1=offload moe_mlpwo=device", 0},
      {"minimal", 1},
      {"minimal_with_context", 1},
      {"minimal_offloaded", 1},
      {"save_dot_except_mlpwi", 2},
      {"save_dot_except_mlp", 3},
      {"save_dot_with_context_except_mlp", 3},
      {"save_qkv_proj", 3},
      {"save_out_proj", 3},
      {"everything", 0},
      {"", 0},
  };
  return all;
}

// The forward pass has three products, and the backward pass three for the gradients of the rows.
TEST(RematOfExperts, SavesRowsUnderTheNamesOfTheReference) {
  for (const std::string& strategy : {kRing, kAllToAll}) {
    for (const std::string scan : {"true", "false"}) {
      for (const Case& c : sparse_cases()) {
        const StepProgram made =
            program(kExperts + kMesh + strategy + "scan_layers=" + scan + " remat_policy=" + c.policy);
        const std::int64_t layers = scan == "true" ? 1 : 2;
        EXPECT_EQ(count(made.graph, graph::Op::grouped_matmul, ""), layers * (6 + c.again))
            << strategy << scan << c.policy;
      }
    }
  }
}

TEST(RematOfExperts, SavesTheRowsOfEachChunk) {
  const std::string request = kExperts + kMesh + kRing + "num_moe_token_chunks=2 num_moe_emb_chunks=2 remat_policy=";
  // Each token chunk has two products per input projection, and as many for their gradients.
  EXPECT_EQ(count(program(request + "full").graph, graph::Op::grouped_matmul, ""), 2 * (5 + 5 + 5));
  EXPECT_EQ(count(program(request + "custom moe_mlpwi_0=device").graph, graph::Op::grouped_matmul, ""),
            2 * (5 + 3 + 5));
  EXPECT_EQ(count(program(request + "custom moe_mlpwo=device").graph, graph::Op::grouped_matmul, ""),
            2 * (5 + 4 + 5));
}

TEST(RematOfExperts, SavesProductsOfTheOtherStrategies) {
  const auto products_of = [](const std::string& strategy, const std::string& policy) {
    return count(program(kExperts + kMesh + strategy + "remat_policy=" + policy).graph, graph::Op::einsum, "MoeBlock_0/w");
  };
  const std::string wide = kDense + "base_mlp_dim=24 base_moe_mlp_dim=24 ";
  for (const std::string& strategy : {wide, kCapacity}) {
    const auto products = [&](const std::string& policy) { return products_of(strategy, policy); };
    const std::int64_t all = products("full");
    for (const char* name : {"moe_mlpwi_0", "moe_mlpwi_1", "moe_mlpwo", "mlpwi_0", "mlpwi_1", "mlpwo"}) {
      EXPECT_EQ(products("custom " + std::string(name) + "=device"), all - 1) << strategy << name;
    }
    EXPECT_EQ(products("minimal"), all - 3) << strategy;
    EXPECT_EQ(products("save_dot_except_mlpwi"), all - 1) << strategy;
    EXPECT_EQ(products("save_dot_except_mlp"), all) << strategy;
  }
  // The down projection of weighted values is not needed again.
  EXPECT_EQ(products_of(kDense, "custom moe_mlpwo=device"), products_of(kDense, "full"));
  EXPECT_EQ(products_of(kDense, "minimal"), products_of(kDense, "full") - 2);
}

std::int64_t in_regions(const StepProgram& made, graph::ReshardOf::Kind kind) {
  std::int64_t runs = 0;
  for (const partition::Collective& collective : partition::collectives_of(made.graph, made.mesh)) {
    if (collective.in_region && collective.kind == kind) runs += collective.runs;
  }
  return runs;
}

// Transfers that only serve saved values are not repeated: with everything saved, only gradients travel in the backward pass.
TEST(RematOfExperts, SparesWhatTravels) {
  using Kind = graph::ReshardOf::Kind;
  const auto made = [&](const std::string& strategy, const std::string& policy) {
    return program(kExperts + kMesh + strategy + "remat_policy=" + policy);
  };
  const std::int64_t layers = 2;
  // Rows go out and come back, and so do their gradients. The rows that went out are needed again for the
  // weights' gradients, those that came back for the router's.
  EXPECT_EQ(in_regions(made(kAllToAll, "full"), Kind::all_to_all), 6 * layers);
  EXPECT_EQ(in_regions(made(kAllToAll, "minimal"), Kind::all_to_all), 6 * layers);
  EXPECT_EQ(in_regions(made(kAllToAll, "everything"), Kind::all_to_all), 4 * layers);
  // Choices, weights and tokens are gathered in the forward pass, the gradients of the results in the backward pass.
  EXPECT_EQ(in_regions(made(kRing, "full"), Kind::all_gather), 7 * layers);
  EXPECT_EQ(in_regions(made(kRing, "minimal"), Kind::all_gather), 7 * layers);
  EXPECT_EQ(in_regions(made(kRing, "everything"), Kind::all_gather), 4 * layers);
}

// On a mesh where expert products leave partial sums, saving the products avoids repeating their reductions.
TEST(RematOfExperts, SparesTheReductionsOfProducts) {
  const auto sent = [&](const std::string& policy) {
    const StepProgram made =
        program(kExperts + kCapacity +
                 "compile_topology=cpu-4 ici_fsdp_parallelism=1 ici_tensor_parallelism=4 remat_policy=" + policy);
    double bytes = 0;
    for (const partition::Collective& collective : partition::collectives_of(made.graph, made.mesh))
      bytes += collective.total_wire_bytes();
    return bytes;
  };
  EXPECT_LT(sent("custom moe_mlpwo=device"), sent("full"));
}

TEST(RematOfExperts, TakesMemory) {
  for (const std::string& strategy : {kRing, kAllToAll, kDense, kCapacity}) {
    for (const std::string scan : {"true", "false"}) {
      const auto peak = [&](const std::string& policy) {
        // With many layers, what is saved of all of them outweighs what one layer needs at a time.
        return footprint_of(program(kExperts + kMesh + strategy +
                                     "base_num_decoder_layers=8 max_target_length=64 scan_layers=" + scan +
                                     " remat_policy=" + policy));
      };
      const Footprint full = peak("full"), one = peak("custom moe_mlpwi_0=device"),
                      all = peak("custom moe_mlpwi_0=device moe_mlpwi_1=device moe_mlpwo=device");
      EXPECT_LT(full.device, one.device) << strategy << scan;
      EXPECT_LT(one.device, all.device) << strategy << scan;
      EXPECT_LT(full.process, one.process) << strategy << scan;
      EXPECT_LT(one.process, all.process) << strategy << scan;
    }
  }
}

using Gradients = std::vector<std::vector<double>>;

Gradients gradients_of(const std::string& request) {
  test::Training training(request, 2, test::kKeepAll);
  const StepResults made = training.trainer.run_step(training.batch());
  Gradients all{{made.metrics.loss}};
  for (const run::Placed& gradient : made.gradients) all.push_back(test::numbers_of(training.trainer.whole(gradient)));
  return all;
}

// The relative error, in the Euclidean norm, of the tensor that differs most.
double distance(const Gradients& a, const Gradients& b) {
  double most = 0;
  for (std::size_t t = 0; t < b.size(); ++t) {
    double difference = 0, norm = 1e-30;
    for (std::size_t i = 0; i < b[t].size(); ++i) {
      difference += (a[t][i] - b[t][i]) * (a[t][i] - b[t][i]);
      norm += b[t][i] * b[t][i];
    }
    most = std::max(most, std::sqrt(difference / norm));
  }
  return most;
}

struct Strategy {
  std::string name, words;
};

void PrintTo(const Strategy& strategy, std::ostream* out) { *out << strategy.name; }

class RematOfExpertsBy : public ::testing::TestWithParam<Strategy> {
 protected:
  void hold(const std::string& changes, double tolerance) {
    const std::string request = kExperts + kMesh + GetParam().words + changes + " remat_policy=";
    const Gradients expected = gradients_of(request + "full");
    for (const std::string policy :
         {"minimal", "custom moe_mlpwi_0=device moe_mlpwi_1=device moe_mlpwo=device", "custom moe_mlpwo=device", "everything"}) {
      EXPECT_LE(distance(gradients_of(request + policy), expected), tolerance) << changes << policy;
    }
  }
};

// The number of rows varies from layer to layer and from device to device. A value that a region saves has the very bits that it
// would compute again. For other products the sum over devices may come before or after saving, which rounds in another place.
TEST_P(RematOfExpertsBy, ChangesGradientsByTheirRoundingAtMost) {
  const bool is_region = GetParam().words.find("sparse_matmul=true") != std::string::npos;
  const bool has_biases = GetParam().words.find("capacity_factor") == std::string::npos;
  for (const char* changes : {"scan_layers=true", "scan_layers=false", "router_skew=3 base_num_decoder_layers=3"})
    hold(changes, is_region ? 0 : 1e-6);
  hold("dtype=bfloat16", is_region ? 0 : 2e-2);
  if (is_region) hold("num_moe_token_chunks=2 num_moe_emb_chunks=2", 0);
  if (has_biases) hold("model_name=gpt-oss-20b base_num_decoder_layers=4", is_region ? 0 : 1e-6);
  hold("ici_tensor_parallelism=2 ici_fsdp_parallelism=1", 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Strategy, RematOfExpertsBy,
                         ::testing::Values(Strategy{"ring", kRing}, Strategy{"all_to_all", kAllToAll},
                                           Strategy{"dense", kDense}, Strategy{"capacity", kCapacity}),
                         [](const auto& test) { return test.param.name; });

// Recorded runs, whose rows are those that the reference's router chose.
TEST(RematOfExpertsSlow, IsAsRecorded) {
  const std::string mesh = " ici_fsdp_parallelism=2 ici_expert_parallelism=4 sparse_matmul=true capacity_factor=-1";
  for (const std::string run :
       {"mixtral", "mixtral-unscanned", "mixtral-bf16", "deepseek3", "qwen3moe", "gptoss", "gptoss-unscanned"}) {
    for (const std::string ring : {"true", "false"}) {
      for (const std::string policy :
           {"minimal", "custom moe_mlpwi_0=device moe_mlpwi_1=device moe_mlpwo=offload", "everything"}) {
        if (test::kIsSanitized && run != "mixtral") continue;
        std::vector<std::string> line{"verify", (test::kRecordedRuns / run).string()};
        for (const std::string& word :
             test::words_of(mesh + " use_ring_of_experts=" + ring + " remat_policy=" + policy))
          line.push_back(word);
        const test::Outcome outcome = outcome_of(line);
        EXPECT_EQ(outcome.code, 0) << run << ring << policy << outcome.out << outcome.err;
      }
    }
  }
}

// What is saved is known to lie in pieces as it did where it was made, so that its norm's gradient gathers it no more than the norm does.
TEST(RematPolicies, WriteOutANormsGradientWhereTheNormIs) {
  using namespace test;
  const std::vector<std::string> families{kLlama,  kQwen,     kSparse,     kRing,     kDense,     kSlots,  kGptOss,
                                          kLlama4, kGemma2,   kGemma3,     kGemma4,   kGemma4Moe, kOlmo3,  kDefault,
                                          kEnvy,   kQwenNext, kQwenCustom, kDeepseek, kStreams,   kIndexed};
  for (const std::string& family : families) {
    for (const std::string policy : {"full", "everything", "minimal", "minimal_with_context", "save_out_proj", "save_qkv_proj"}) {
      for (const std::string scan : {"true", "false"}) {
        const std::string request =
            family + "base_num_kv_heads=2 global_num_kv_heads=2 compile_topology=cpu-2 ici_fsdp_parallelism=1 ici_tensor_parallelism=2 " +
            "remat_policy=" + policy + " scan_layers=" + scan;
        SCOPED_TRACE(request);
        const session::Session session = test::session(request);
        std::set<std::string> written_out, whole_gradients;
        step_program(session.graph, session.loaded.settings, {session.layout, session.target}, {},
                     [&](std::string_view pass, const graph::Graph& graph) {
                       if (pass != pass_names::expand) return;
                       test::see_all(graph, [&](const graph::Graph&, const graph::Node& node) {
                         if (node.op == graph::Op::rms_norm_of_dots) written_out.insert(node.path + "'");
                         if (node.op == graph::Op::rms_norm_grad) whole_gradients.insert(node.path);
                       });
                     });
        EXPECT_FALSE(written_out.empty());
        for (const std::string& path : whole_gradients) EXPECT_FALSE(written_out.contains(path)) << path;
      }
    }
  }
}

TEST(RematPolicies, SayThatNothingIsOffloaded) {
  const std::string words = kExperts + "steps=1 metrics_file= compile_topology=cpu-1 ";
  const auto said = [&](const std::string& policy) {
    std::vector<std::string> line{"train"};
    for (const std::string& word : test::words_of(words + "remat_policy=" + policy)) line.push_back(word);
    return outcome_of(line).err;
  };
  EXPECT_THAT(said("minimal_offloaded"), HasSubstr("query_proj, value_proj: kept in memory, where all values are; nothing is moved elsewhere"));
  EXPECT_THAT(said("custom context=offload moe_mlpwo=offload mlpwo=device"), HasSubstr("note: context, moe_mlpwo: kept in memory"));
  EXPECT_THAT(said("full optimizer_memory_host_offload=true"), HasSubstr("note: moments: kept in memory"));
  EXPECT_THAT(said("minimal context=offload"), Not(HasSubstr("kept in memory")))
      << "without custom no key of a value counts";
}

}  // namespace
}  // namespace moesh::train
