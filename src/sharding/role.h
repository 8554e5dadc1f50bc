// The role of a parameter in its model.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace moesh::sharding {

enum class Role : std::uint8_t {
  none,  // not given; the models give one to each of their parameters
  embedding,
  position_embedding,
  output_projection,  // to the vocabulary, if it is not tied to the embedding
  norm_scale,
  norm_bias,
  attention_norm_scale,   // of queries, keys or latents
  attention_kernel,       // of query, key or value: from the embedding or a latent to heads
  attention_fused_kernel,  // of query, key and value in one
  attention_down_kernel,  // from the embedding to a latent
  attention_out_kernel,   // from heads to the embedding
  attention_flat_out_kernel,  // the same, where the heads are one dim
  attention_group_kernel,  // from groups of heads to a latent each
  attention_bias,
  attention_sinks,
  index_kernel,       // of an indexer: from the queries' latent to heads
  index_down_kernel,  // from the embedding to keys and to the heads' weights
  index_norm,         // scale and bias of the norm of keys
  pool_bias,          // of compressed attention: what the places in a window add to the gates of their tokens
  delta_kernel,       // of linear attention: to its heads, or from them to the embedding
  delta_conv,         // the weights of its window
  delta_gate,         // what its memory decays by
  delta_norm_scale,   // of what is read of its memory
  mlp_kernel,
  mlp_bias,
  shared_expert_kernel,
  shared_expert_gate,  // makes the share of a shared expert in a token
  router_kernel,
  router_bias,
  expert_table,       // the experts of each token of the vocabulary
  expert_kernel,
  expert_bias,
  stream_kernel,      // reads all streams of the residual, to weigh and mix them
  stream_gate,        // scales and biases of these weights
  prediction_kernel,  // of multi-token prediction: from two embeddings to one; the last role
};

// The component of the model that parameters of the role belong to, for totals: "experts", "attention", ...
std::string_view component_of(Role role);

// All components, in the order in which a model uses them.
std::span<const std::string_view> components();

}  // namespace moesh::sharding
