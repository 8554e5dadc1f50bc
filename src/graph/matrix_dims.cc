#include "graph/matrix_dims.h"

namespace moesh::graph {

// Counts dims from both ends of the shape, because the dims of stacked layers may stand in between: they are a batch of matrices, and so
// are experts.
MatrixDims matrix_dims(sharding::Role role, const Shape& shape) {
  using sharding::Role;
  const int last = static_cast<int>(shape.size()) - 1;
  switch (role) {
    case Role::none:
    case Role::embedding:
    case Role::position_embedding:
    case Role::output_projection:
    case Role::norm_scale:
    case Role::norm_bias:
    case Role::mlp_bias:
    case Role::attention_norm_scale:
    case Role::attention_bias:
    case Role::attention_sinks:
    case Role::index_norm:
    case Role::delta_conv:
    case Role::delta_gate:
    case Role::stream_gate:
    case Role::delta_norm_scale:
    case Role::expert_table:
    case Role::router_bias: return {};
    case Role::attention_kernel:
    case Role::index_kernel: return {true, {0}, {last - 1, last}};
    case Role::attention_out_kernel: return {true, {0, last - 1}, {last}};
    case Role::attention_flat_out_kernel:
    case Role::attention_fused_kernel:
    case Role::attention_down_kernel:
    case Role::index_down_kernel:
    case Role::pool_bias:
    case Role::delta_kernel:
    case Role::mlp_kernel:
    case Role::shared_expert_kernel:
    case Role::shared_expert_gate:
    case Role::stream_kernel:
    case Role::prediction_kernel:
    case Role::expert_bias:
    case Role::router_kernel: return {true, {0}, {last}};
    case Role::attention_group_kernel:
    case Role::expert_kernel: return {true, {last - 1}, {last}};
  }
  return {};
}

}  // namespace moesh::graph
