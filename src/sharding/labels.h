// The labels of dims (logical axis names), as rule files spell them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moesh {

using Labels = std::vector<std::string>;  // one label per dim; "" for a dim to which no rule applies

}  // namespace moesh

namespace moesh::labels {

// Weights.
inline constexpr const char* vocab = "vocab";
inline constexpr const char* embed_vocab = "embed_vocab";
inline constexpr const char* embed = "embed";
inline constexpr const char* embed_moe = "embed_moe";
inline constexpr const char* expert_only = "expert_only";
inline constexpr const char* mlp = "mlp";
inline constexpr const char* num_activations = "num_activations";
inline constexpr const char* mlp_moe = "mlp_moe";
inline constexpr const char* mlp_no_fsdp = "mlp_no_fsdp";
inline constexpr const char* exp = "exp";
inline constexpr const char* norm = "norm";
inline constexpr const char* q_heads = "q_heads";
inline constexpr const char* kv_heads = "kv_heads";
inline constexpr const char* heads = "heads";
inline constexpr const char* kv = "kv";
inline constexpr const char* qkv = "qkv";
inline constexpr const char* kv_head_dim = "kv_head_dim";
inline constexpr const char* q_lora = "q_lora";
inline constexpr const char* q_lora_up_proj = "q_lora_up_proj";
inline constexpr const char* kv_lora = "kv_lora";
inline constexpr const char* kv_lora_up_proj = "kv_lora_up_proj";
inline constexpr const char* indexer_q = "indexer_q";              // of compressed attention: the indexer's heads, with their widths,
inline constexpr const char* indexer_weights = "indexer_weights";  // and what it weighs them by
inline constexpr const char* o_groups = "o_groups";                // groups of heads, and the width of each
inline constexpr const char* o_lora_up_proj = "o_lora_up_proj";
inline constexpr const char* gdn_head = "gdn_head";  // of linear attention: all heads, with their widths

// Dims over which equal layers are stacked.
inline constexpr const char* layers = "layers";
inline constexpr const char* dense_layers = "dense_layers";
inline constexpr const char* moe_layers = "moe_layers";
inline constexpr const char* local_layers = "local_layers";  // the layers of a cycle that are alike
inline constexpr const char* layers_per_stage = "layers_per_stage";
inline constexpr const char* circular_repeats = "circular_repeats";
inline constexpr const char* scanned_blocks = "scanned_blocks";  // cycles of layers that differ

// Whether the dim is one of these: sharded, its layers would have to be fetched one by one.
constexpr bool stacks_layers(std::string_view label) {
  for (const char* stack : {layers, dense_layers, moe_layers, local_layers, layers_per_stage, circular_repeats, scanned_blocks}) {
    if (label == stack) return true;
  }
  return false;
}

// Activations of the residual stream and the dense MLP.
inline constexpr const char* activation_embed_and_logits_batch = "activation_embed_and_logits_batch";
inline constexpr const char* activation_batch = "activation_batch";
inline constexpr const char* activation_length = "activation_length";
inline constexpr const char* activation_norm_length = "activation_norm_length";
inline constexpr const char* activation_embed = "activation_embed";
inline constexpr const char* activation_mlp = "activation_mlp";
inline constexpr const char* activation_vocab = "activation_vocab";
inline constexpr const char* activation_stage = "activation_stage";

// Activations of attention.
inline constexpr const char* activation_batch_attn = "activation_batch_attn";
inline constexpr const char* activation_input_length_attn = "activation_input_length_attn";
inline constexpr const char* activation_length_attn = "activation_length_attn";
inline constexpr const char* activation_kv_length = "activation_kv_length";
inline constexpr const char* activation_embed_attn = "activation_embed_attn";
inline constexpr const char* activation_kv_batch = "activation_kv_batch";
inline constexpr const char* activation_heads = "activation_heads";
inline constexpr const char* activation_kv_heads = "activation_kv_heads";
inline constexpr const char* activation_kv = "activation_kv";
inline constexpr const char* activation_kv_head_dim = "activation_kv_head_dim";

// Activations of attention in prefill and decode, and the KV cache.
inline constexpr const char* activation_prefill_kv_batch = "activation_prefill_kv_batch";
inline constexpr const char* prefill_activation_length = "prefill_activation_length";
inline constexpr const char* decode_batch = "decode_batch";
inline constexpr const char* decode_length = "decode_length";
inline constexpr const char* cache_batch = "cache_batch";
inline constexpr const char* cache_sequence = "cache_sequence";
inline constexpr const char* cache_heads = "cache_heads";
inline constexpr const char* cache_kv = "cache_kv";

// Activations of the experts.
inline constexpr const char* activation_exp = "activation_exp";
inline constexpr const char* activation_batch_moe = "activation_batch_moe";
inline constexpr const char* decode_batch_moe = "decode_batch_moe";
inline constexpr const char* activation_length_moe = "activation_length_moe";
inline constexpr const char* activation_norm_length_moe = "activation_norm_length_moe";
inline constexpr const char* activation_embed_moe = "activation_embed_moe";

// Whether the dim is one of rows.
constexpr bool is_batch(std::string_view label) { return label.find("batch") != std::string_view::npos; }

// A dim to which no rule applies.
inline constexpr const char* none = "";

}  // namespace moesh::labels
