// Every parameter of every preset says what it is to its model.
#include <regex>
#include <set>

#include <gtest/gtest.h>

#include "config/builtin.h"
#include "sharding/labels.h"
#include "tests/support.h"

namespace moesh::models {
namespace {

using sharding::LaidTensor;
using sharding::Role;

struct Known {
  Role role;
  const char* path;  // how the reference calls such parameters, from where it begins to differ to the end
};

const std::vector<Known> kKnown{
    {Role::embedding, "token_embedder/embedding"},
    {Role::output_projection, "decoder/logits_dense/kernel"},
    {Role::norm_scale, "decoder/(.*/)?(decoder_norm|pre_self_attention_layer_norm|post_self_attention_layer_norm)/scale"},
    {Role::attention_norm_scale, ".*/(query_norm|key_norm|q_norm|kv_norm)/scale"},
    {Role::attention_kernel, ".*/(self_attention|GptOssAttention)/(query|key|value|wq_b|wkv_b)/kernel"},
    {Role::attention_down_kernel, ".*/self_attention/(wq_a|wkv_a)/kernel"},
    {Role::attention_out_kernel, ".*/(self_attention|GptOssAttention)/out/kernel"},
    {Role::attention_bias, ".*/GptOssAttention/(query|key|value|out)/bias"},
    {Role::attention_sinks, ".*/GptOssAttention/sinks"},
    {Role::mlp_kernel, ".*/mlp/(wi_0|wi_1|wo)/kernel"},
    {Role::shared_expert_kernel, ".*/shared_experts/(wi_0|wi_1|wo)/kernel"},
    {Role::router_kernel, ".*/(MoeBlock_0|moe_block|GptOssMlp)/gate/kernel"},
    {Role::router_bias, ".*/(MoeBlock_0|moe_block|GptOssMlp)/gate/bias"},
    {Role::expert_kernel, ".*/(MoeBlock_0|moe_block|GptOssMlp)/(wi_0|wi_1|wo)"},
    {Role::expert_bias, ".*/(MoeBlock_0|moe_block|GptOssMlp)/(wi_0|wi_1|wo)_bias"},
};

std::vector<Role> known_roles(const std::string& path) {
  std::vector<Role> roles;
  for (const Known& known : kKnown) {
    if (std::regex_match(path, std::regex(known.path))) roles.push_back(known.role);
  }
  return roles;
}

bool bears(const LaidTensor& parameter, const char* label) {
  return std::find(parameter.labels().begin(), parameter.labels().end(), label) != parameter.labels().end();
}

std::int64_t number_of(const sharding::Layout& layout, Role role) {
  return std::count_if(layout.parameters.begin(), layout.parameters.end(), [&](const LaidTensor& p) { return p.role == role; });
}

TEST(Roles, AreThoseThatTheReferencesNamesTell) {
  std::set<Role> seen;
  for (const std::string& model : config::builtin_names("models")) {
    for (const char* scan : {" scan_layers=true", " scan_layers=false"}) {
      for (const LaidTensor& parameter : test::session("model_name=" + model + scan).layout.parameters) {
        EXPECT_EQ(known_roles(parameter.path), std::vector<Role>{parameter.role}) << model << " " << parameter.path;
        seen.insert(parameter.role);
      }
    }
  }
  EXPECT_EQ(seen.size(), kKnown.size()) << "every role is some preset's";
}

TEST(Roles, GoWithTheLabelsAndSizesOfAParameter) {
  for (const std::string& model : config::builtin_names("models")) {
    const session::Session session = test::session("model_name=" + model);
    const bool routed = session.shape.is_moe();
    for (const LaidTensor& parameter : session.layout.parameters) {
      SCOPED_TRACE(model + " " + parameter.path);
      const bool is_of_an_expert = parameter.role == Role::expert_kernel || parameter.role == Role::expert_bias;
      EXPECT_EQ(is_of_an_expert, bears(parameter, labels::exp));
      EXPECT_EQ(parameter.role == Role::norm_scale || parameter.role == Role::attention_norm_scale, bears(parameter, labels::norm));
      EXPECT_EQ(parameter.role == Role::embedding || parameter.role == Role::output_projection, bears(parameter, labels::vocab));
      EXPECT_EQ(parameter.role == Role::mlp_kernel || parameter.role == Role::shared_expert_kernel, bears(parameter, labels::mlp));
    }
    const std::int64_t routers = number_of(session.layout, Role::router_kernel);
    EXPECT_EQ(routers > 0, routed) << model;
    EXPECT_EQ(number_of(session.layout, Role::router_bias), session.shape.moe.routed_bias && routed ? routers : 0) << model;
    EXPECT_EQ(number_of(session.layout, Role::expert_kernel), 3 * routers) << model;
    EXPECT_EQ(number_of(session.layout, Role::expert_bias), session.shape.moe.bias ? 3 * routers : 0) << model;
    EXPECT_EQ(number_of(session.layout, Role::embedding), 1) << model;
  }
}

TEST(Roles, OfMomentsAreTheirParameters) {
  const sharding::Layout layout = test::session("model_name=deepseek3-tiny opt_type=muon").layout;
  EXPECT_FALSE(layout.moments.empty());
  for (const LaidTensor& moment : layout.moments) {
    EXPECT_EQ(moment.path.substr(3), moment.moment_of);
    EXPECT_EQ(moment.role, test::tensor_at(layout.parameters, moment.moment_of).role) << moment.path;
  }
}

}  // namespace
}  // namespace moesh::models
