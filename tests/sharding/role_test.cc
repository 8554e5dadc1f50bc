// The component of a model to which a parameter's role belongs.
#include "sharding/role.h"

#include <set>

#include <gtest/gtest.h>

namespace moesh::sharding {
namespace {

TEST(Component, IsThePartOfTheModelThatARoleBelongsTo) {
  EXPECT_EQ(component_of(Role::embedding), "embedding");
  EXPECT_EQ(component_of(Role::output_projection), "logits");
  EXPECT_EQ(component_of(Role::norm_scale), "norms");
  EXPECT_EQ(component_of(Role::attention_norm_scale), "attention");
  EXPECT_EQ(component_of(Role::attention_down_kernel), "attention");
  EXPECT_EQ(component_of(Role::attention_sinks), "attention");
  EXPECT_EQ(component_of(Role::mlp_kernel), "dense MLP");
  EXPECT_EQ(component_of(Role::shared_expert_kernel), "shared experts");
  EXPECT_EQ(component_of(Role::router_bias), "router");
  EXPECT_EQ(component_of(Role::expert_bias), "experts");
  EXPECT_EQ(component_of(Role::none), "other");
}

TEST(Component, IsInTheListOfAll) {
  const std::set<std::string_view> listed(components().begin(), components().end());
  EXPECT_EQ(listed.size(), components().size());
  std::set<std::string_view> known;
  for (int role = 0; role <= static_cast<int>(Role::prediction_kernel); ++role) known.insert(component_of(static_cast<Role>(role)));
  EXPECT_EQ(known, listed);
}

}  // namespace
}  // namespace moesh::sharding
