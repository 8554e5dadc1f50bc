// Tests that every parameter of every preset states its role in the model.
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
  const char* path;  // a pattern of the full paths that the reference gives to such parameters
};

const std::vector<Known> kKnown{
    {Role::embedding, "token_embedder/embedding"},
    {Role::position_embedding, "decoder/position_embedder/embedding"},
    {Role::output_projection, "decoder/logits_dense/kernel"},
    {Role::norm_scale,
     "decoder/(.*/)?(decoder_norm|input_layernorm|post_attention_layernorm|(pre|post)_self_attention_(layer_)?norm(_local|_global)?|(pre|post)_ffw_norm(_local|_global)?|"
     "post_mlp_layer_norm|mlp_layer_norm|latent_norm|pre_feedforward_layernorm_2|post_feedforward_layernorm_[12]|mhc_norm)/scale|"
     ".*/(layer_scalar|pre_forward_scale_2|per_expert_scale)"},
    {Role::norm_bias, "decoder/(.*/)?(decoder_norm|pre_self_attention_norm|mlp_layer_norm)/bias"},
    {Role::attention_norm_scale, ".*/(query_norm|key_norm|value_norm|q_norm|kv_norm)/scale"},
    {Role::attention_flat_out_kernel, ".*/attention/attention/out/kernel|.*/self_attention/o_b_proj/kernel"},
    {Role::attention_group_kernel, ".*/self_attention/o_a_proj/kernel"},
    {Role::pool_bias, ".*/(csa|hca)_compressor/(indexer/)?position_bias"},
    {Role::delta_kernel, ".*/attention/(in_proj_qkvz|in_proj_ba|out_proj)/kernel"},
    {Role::delta_conv, ".*/attention/conv1d/kernel"},
    {Role::delta_gate, ".*/attention/(A_log|dt_bias)"},
    {Role::delta_norm_scale, ".*/attention/norm/rms_norm/scale"},
    {Role::attention_kernel, ".*/(self_attention(_local|_global)?|GptOssAttention|attention)/(query|key|value|wq_b|wkv|wkv_b)/kernel"},
    {Role::attention_down_kernel, ".*/self_attention/(wq_a|wkv_a|(csa|hca)_compressor/(kv_proj|gate_proj))/kernel"},
    {Role::attention_out_kernel, ".*/(self_attention(_local|_global)?|GptOssAttention|layers_[0-9]+/attention)/out/kernel"},
    {Role::attention_fused_kernel, ".*/self_attention/qkv_proj/kernel"},
    {Role::attention_bias, ".*/(GptOssAttention|self_attention)/(query|key|value|out|qkv_proj)/bias"},
    {Role::attention_sinks, ".*/(GptOssAttention|self_attention)/sinks"},
    {Role::index_kernel, ".*/self_attention/indexer/wq_b/kernel"},
    {Role::index_down_kernel, ".*/self_attention/(indexer/(wk|weights_proj)|csa_compressor/indexer/(q_proj|kv_proj|gate_proj|weights_proj))/kernel"},
    {Role::index_norm, ".*/self_attention/indexer/k_norm/(scale|bias)"},
    {Role::mlp_kernel, ".*/(mlp(_local|_global)?/(wi|wi_0|wi_1|wo)|layer_up_projection)/kernel"},
    {Role::mlp_bias, ".*/mlp/(wi|wo)/bias"},
    {Role::shared_expert_gate, ".*/shared_expert_gate/kernel"},
    {Role::shared_expert_kernel, ".*/shared_experts?/(wi|wi_0|wi_1|wo)/kernel"},
    {Role::router_kernel, ".*/(MoeBlock_0|moe_block|GptOssMlp|routed_experts)/gate/kernel"},
    {Role::router_bias, ".*/(MoeBlock_0|moe_block|GptOssMlp)/gate/bias"},
    {Role::expert_table, ".*/MoeBlock_0/tid2eid"},
    {Role::expert_kernel, ".*/(MoeBlock_0|moe_block|GptOssMlp|routed_experts)/(wi_0|wi_1|wo)"},
    {Role::expert_bias, ".*/(MoeBlock_0|moe_block|GptOssMlp)/(wi_0|wi_1|wo)_bias"},
    {Role::stream_kernel, ".*/mhc_(attention|mlp)/(pre|post|res)_alpha|decoder/hc_head/hc_fn"},
    {Role::stream_gate, ".*/mhc_(attention|mlp)/(pre|post|res)_(alpha_scale|beta)|decoder/hc_head/(hc_scale|hc_base)"},
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
  std::vector<std::string> models = config::builtin_names("models");
  models.emplace_back("deepseek3-671b override_model_config=true mhc_expansion_rate=4");
  for (const std::string& model : models) {
    for (const char* scan : {" override_model_config=true scan_layers=true", " override_model_config=true scan_layers=false"}) {
      for (const LaidTensor& parameter : test::session("model_name=" + model + scan).layout.parameters) {
        EXPECT_EQ(known_roles(parameter.path), std::vector<Role>{parameter.role}) << model << " " << parameter.path;
        seen.insert(parameter.role);
      }
    }
  }
  EXPECT_EQ(seen.size(), kKnown.size()) << "every role is some model's";
}

TEST(Roles, GoWithTheLabelsAndSizesOfAParameter) {
  for (const std::string& model : config::builtin_names("models")) {
    const session::Session session = test::session("model_name=" + model);
    const bool routed = session.shape.is_moe();
    for (const LaidTensor& parameter : session.layout.parameters) {
      SCOPED_TRACE(model + " " + parameter.path);
      const bool is_of_an_expert = parameter.role == Role::expert_kernel || parameter.role == Role::expert_bias;
      // These scales multiply something other than the output of a norm.
      if (std::regex_match(parameter.path, std::regex(".*/(layer_scalar|pre_forward_scale_2|per_expert_scale)"))) continue;
      EXPECT_EQ(is_of_an_expert, bears(parameter, labels::exp) || bears(parameter, labels::expert_only));
      const auto is_one_of = [&](std::set<Role> roles) { return roles.contains(parameter.role); };
      const bool is_norm = is_one_of({Role::norm_scale, Role::norm_bias, Role::attention_norm_scale});
      const bool has_label = session.shape.labels_layer_norms || parameter.path.starts_with("decoder/decoder_norm/");
      EXPECT_EQ(is_norm && has_label, bears(parameter, labels::norm));
      EXPECT_EQ(is_one_of({Role::embedding, Role::position_embedding, Role::output_projection}), bears(parameter, labels::vocab));
      if (session.shape.block == config::Block::deepseek4 && parameter.role == Role::attention_flat_out_kernel) continue;
      EXPECT_EQ(is_one_of({Role::mlp_kernel, Role::shared_expert_kernel, Role::attention_flat_out_kernel}), bears(parameter, labels::mlp) && !is_one_of({Role::mlp_bias}));
    }
    const std::int64_t routers = number_of(session.layout, Role::router_kernel);
    EXPECT_EQ(routers > 0, routed) << model;
    const std::int64_t tables = number_of(session.layout, Role::expert_table);  // instead of biases
    EXPECT_EQ(number_of(session.layout, Role::router_bias), session.shape.moe.routed_bias && routed ? routers - tables : 0) << model;
    EXPECT_EQ(tables, session.shape.given_layers) << model;
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
