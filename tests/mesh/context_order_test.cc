#include "mesh/context_order.h"

#include <gmock/gmock.h>

#include "config/builtin.h"
#include "tests/train/trainer_support.h"

namespace moesh::mesh {
namespace {

using test::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::int64_t> order_of(const std::string& request) {
  const session::Session session = test::session(test::kTinyModel + "vocab_size=24 " + request);
  return context_order(session.loaded.settings, session.mesh);
}

TEST(ContextOrder, PairsTheFrontWithTheEnd) {
  EXPECT_THAT(balanced_order(8, 2), ElementsAre(0, 1, 6, 7, 2, 3, 4, 5));
  EXPECT_THAT(balanced_order(8, 4), ElementsAre(0, 7, 1, 6, 2, 5, 3, 4));
}

// Which tokens are dropped by experts of limited capacity depends on the order of a row, and must not depend on the mesh.
TEST(ContextOrder, StaysAsItIsWhereExpertsDropTokens) {
  EXPECT_TRUE(order_of("model_name=mixtral-8x7b override_model_config=true compile_topology=cpu-2 ici_fsdp_parallelism=1 "
                       "ici_context_parallelism=2 max_target_length=8 sparse_matmul=false capacity_factor=1 base_moe_mlp_dim=20")
                  .empty());
}

// Under a causal mask each position sees all positions up to its own. Every shard must see the same number of them.
TEST(ContextOrder, GivesEveryShardTheSameWork) {
  const std::vector<std::int64_t> order = balanced_order(64, 4);
  for (std::size_t shard = 0; shard < 4; ++shard) {
    std::int64_t seen = 0;
    for (std::size_t i = 0; i < 16; ++i) seen += order[shard * 16 + i] + 1;
    EXPECT_EQ(seen, 64 * 65 / 2 / 4);
  }
}

TEST(ContextOrder, IsForContextsThatAreSpreadAndBalanced) {
  EXPECT_TRUE(order_of("max_target_length=8").empty());
  const std::string spread = "compile_topology=cpu-2 ici_fsdp_parallelism=1 ici_context_parallelism=2 max_target_length=8 ";
  EXPECT_THAT(order_of(spread), ElementsAre(0, 1, 6, 7, 2, 3, 4, 5));
  EXPECT_TRUE(order_of(spread + "context_parallel_load_balance=false").empty());
  EXPECT_THAT(message_of([&] { order_of(spread + "max_target_length=6"); }),
              HasSubstr("a context of 6 over 2 devices cannot be balanced: their number must be even and twice it divide the context"));
}

// Of every model, whatever its layers make of the order: the layout can be looked at, and only a step refuses.
TEST(ContextOrder, ThatIsAskedForInVainLetsAnyModelBeLaidOut) {
  for (const std::string& model : config::builtin_names("models")) {
    for (const std::string sizes : {"ici_context_parallelism=4 compile_topology=cpu-8 max_target_length=36",
                                    "ici_context_parallelism=3 compile_topology=cpu-3 max_target_length=48"}) {
      const std::string request = fmt::format("model_name={} override_model_config=true per_device_batch_size=1 {}", model, sizes);
      SCOPED_TRACE(request);
      const session::Session session = session::open(test::words_of(request), session::Evenness::reported);
      const config::Settings& settings = session.loaded.settings;
      EXPECT_EQ(balanced_shards(settings, session.mesh), 1);
      if (settings.text("attention_type") == "compressed") continue;
      EXPECT_TRUE(cannot_be_balanced(settings, session.mesh));
      EXPECT_THAT(message_of([&] { check_balance(settings, session.mesh); }), HasSubstr("cannot be balanced"));
    }
  }
}

// Under this rule set the expert axis carries the context.
TEST(ContextOrder, FollowsTheAxisThatCarriesTheContext) {
  EXPECT_THAT(order_of("compile_topology=cpu-2 ici_fsdp_parallelism=1 ici_expert_parallelism=2 custom_mesh_and_rule=ep-as-cp "
                       "max_target_length=8"),
              ElementsAre(0, 1, 6, 7, 2, 3, 4, 5));
}

TEST(ContextOrder, ChangesNoLossAndLeavesLogitsInPlace) {
  const std::string request = test::kTinyModel +
                              "vocab_size=24 base_num_kv_heads=2 max_target_length=8 compile_topology=cpu-2 "
                              "ici_fsdp_parallelism=1 ici_context_parallelism=2 ";
  test::Training balanced(request, 2, test::kKeepAll);
  test::Training plain(request + "context_parallel_load_balance=false", 2, test::kKeepAll);
  const train::StepResults a = balanced.trainer.run_step(balanced.batch());
  const train::StepResults b = plain.trainer.run_step(plain.batch());
  EXPECT_NEAR(a.metrics.loss, b.metrics.loss, 1e-6);
  const std::vector<double> x = test::numbers_of(balanced.trainer.logits(a));
  const std::vector<double> y = test::numbers_of(plain.trainer.logits(b));
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-5);
}

}  // namespace
}  // namespace moesh::mesh
