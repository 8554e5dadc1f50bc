// What a parameter is to its model.
#pragma once

#include <cstdint>
#include <string_view>

namespace moesh::sharding {

enum class Role : std::uint8_t {
  none,  // not said; the models say it of all their parameters
  embedding,
  position_embedding,
  output_projection,  // to the vocabulary, where it is not the embedding
  norm_scale,
  norm_bias,
  attention_norm_scale,   // of queries, keys or latents
  attention_kernel,       // of query, key, value: from the embedding or a latent to heads
  attention_fused_kernel,  // of all three of them
  attention_down_kernel,  // from the embedding to a latent
  attention_out_kernel,   // from heads to the embedding
  attention_bias,
  attention_sinks,
  mlp_kernel,
  mlp_bias,
  shared_expert_kernel,
  router_kernel,
  router_bias,
  expert_kernel,
  expert_bias,
};

// The part of the model that such parameters belong to, for totals: "experts", "attention", ...
std::string_view component_of(Role role);

}  // namespace moesh::sharding
