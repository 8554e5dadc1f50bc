#include "sharding/role.h"

namespace moesh::sharding {
namespace {

constexpr std::string_view kComponents[] = {"embedding",      "attention", "dense MLP", "router",                 "experts",
                                            "shared experts", "norms",     "streams",   "logits",
                                             "multi-token prediction", "other"};

}  // namespace

std::span<const std::string_view> components() { return kComponents; }

std::string_view component_of(Role role) {
  switch (role) {
    case Role::none: break;
    case Role::position_embedding:
    case Role::embedding: return "embedding";
    case Role::output_projection: return "logits";
    case Role::norm_bias:
    case Role::norm_scale: return "norms";
    case Role::attention_norm_scale:
    case Role::attention_kernel:
    case Role::attention_fused_kernel:
    case Role::attention_down_kernel:
    case Role::attention_out_kernel:
    case Role::attention_group_kernel:
    case Role::pool_bias:
    case Role::attention_bias:
    case Role::index_kernel:
    case Role::index_down_kernel:
    case Role::index_norm:
    case Role::attention_flat_out_kernel:
    case Role::delta_kernel:
    case Role::delta_conv:
    case Role::delta_gate:
    case Role::delta_norm_scale:
    case Role::attention_sinks: return "attention";
    case Role::mlp_bias:
    case Role::mlp_kernel: return "dense MLP";
    case Role::shared_expert_gate:
    case Role::shared_expert_kernel: return "shared experts";
    case Role::router_kernel:
    case Role::router_bias:
    case Role::expert_table: return "router";
    case Role::expert_kernel:
    case Role::expert_bias: return "experts";
    case Role::stream_kernel:
    case Role::stream_gate: return "streams";
    case Role::prediction_kernel: return "multi-token prediction";
  }
  return "other";
}

}  // namespace moesh::sharding
