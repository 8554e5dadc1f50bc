// What a constraint changes after the rules have been applied.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sharding/constraint.h"
#include "tests/support.h"

namespace moesh::sharding {
namespace {

using test::mesh_of;
using test::message_of;
using test::rule;

const mesh::Mesh& small_mesh() {
  static const mesh::Mesh mesh = mesh_of({{"data", 2}, {"stage", 2}, {"fsdp", 2}, {"one", 1}, {"expert", 4}});
  return mesh;
}

const std::vector<config::AxisRule> kRules{rule("batch", {"data", "fsdp", "expert"}), rule("exp", {"expert"}),
                                           rule("also", {"one"}), rule("too", {"one"})};

std::string laid_by(const Constraint& constraint, const std::vector<config::AxisRule>& rules = kRules) {
  return to_string(lay(constraint, rules, small_mesh(), "a/b"), small_mesh());
}

TEST(Constraint, IsThePlainRulesWhenItChangesNothing) {
  EXPECT_EQ(laid_by({{"exp", "batch"}, false, {}, {}, false}), "[-, (data, fsdp, expert)]");
  EXPECT_TRUE((Constraint{{"exp"}, false, {}, {}, false}.is_plain()));
}

TEST(Constraint, PeelsAnAxisOffEveryDim) {
  const Constraint constraint{{"exp", "batch"}, false, {"fsdp", "expert"}, {}, false};
  EXPECT_EQ(laid_by(constraint), "[-, data]");
  EXPECT_FALSE(constraint.is_plain());
}

TEST(Constraint, PeelsAnAxisOffTheDimsItNames) {
  EXPECT_EQ(laid_by({{"exp", "batch"}, false, {"expert"}, {1}, false}), "[-, (data, fsdp)]");
  EXPECT_EQ(laid_by({{"exp", "batch"}, false, {"expert"}, {0}, false}), "[-, (data, fsdp, expert)]");
}

TEST(Constraint, ResolvesEachDimAsIfTheOthersWereNotThere) {
  EXPECT_EQ(laid_by({{"exp", "batch"}, true, {"expert"}, {1}, false}), "[expert, (data, fsdp)]");
}

TEST(Constraint, RefusesAnAxisThatWouldShardTwoDims) {
  EXPECT_EQ(message_of([] {
              laid_by({{"exp", "batch"}, true, {}, {}, false});
            }),
            "a/b: axis 'expert' would shard two dims of one value: dim 0 (exp -> expert) and dim 1 (batch -> data, fsdp, expert)\n"
            "  fix: change the rules of one of these labels, or moe_dispatch_no_expert_sharding=false");
}

TEST(Constraint, MayHoldAnAxisOfSizeOneTwice) { EXPECT_EQ(laid_by({{"also", "too"}, true, {}, {}, false}), "[one, one]"); }

TEST(Constraint, LetsStagesCarryTheBatchBeforeDataBesideAPipeline) {
  EXPECT_EQ(laid_by({{"batch"}, false, {}, {}, true}), "[(stage, data, fsdp, expert)]");
  EXPECT_EQ(laid_by({{"exp"}, false, {}, {}, true}), "[expert]");
}

TEST(Constraint, ReadsStageAsDataWhereverItStood) {
  const std::vector<config::AxisRule> rules =
      with_stage_as_data({rule("a", {"stage"}), rule("b", {"fsdp", "data", "stage"}), rule("c", {"fsdp"})});
  EXPECT_EQ(rules[0].axes, (std::vector<std::string>{}));
  EXPECT_EQ(rules[1].axes, (std::vector<std::string>{"fsdp", "stage", "data"}));
  EXPECT_EQ(rules[2].axes, (std::vector<std::string>{"fsdp"}));
}

}  // namespace
}  // namespace moesh::sharding
