// The sizes and choices that define a model, derived from the settings in one place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "config/settings.h"

namespace moesh::config {

enum class Block {
  plain,  // MaxText's own, `default`
  llama2,
  llama4,
  mistral,
  mixtral,
  deepseek,
  qwen2,
  qwen2_moe,
  qwen3,
  qwen3_moe,
  qwen3_custom_moe,
  gpt3,
  gpt_oss,
  gemma,
  gemma2,
  gemma3,
  gemma4,
  olmo3,
  envy
};

// The norm that queries and keys pass: of each head, or of all heads as one vector, before they turn; or of each head after it,
// without a scale, where it turns at all.
enum class HeadNorm { none, each, all, turned };

struct AttentionShape {
  std::int64_t query_heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t out_dim = 0;         // of what attention gives
  std::int64_t turned_dim = 0;      // the first dims of a head, which are rotated
  HeadNorm norm = HeadNorm::none;
  bool bias = false;
  bool out_bias = false;
  bool sinks = false;
  bool fused = false;               // one kernel makes queries, keys and values
  bool scales_query = false;        // scores are scaled
  bool shrinks_query_kernel = false;  // and where they are not: smaller by the root of head_dim
  bool norms_values = false;        // each head's, before they are kept
  bool scales_value_norm = false;   // by a learned scale
  bool shares_values = false;       // a key before its norm is the value too
  bool turns_halves_beginnings = false;  // what turns are the beginnings of a head's two halves, by the whole head's frequencies
  bool tempers = false;             // queries that do not turn grow with what they see
  double score_scale = -1;          // -1: the family's own
  // Multi-head latent attention.
  bool latent = false;
  std::int64_t q_lora_rank = 0;  // 0: the query is projected at once
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;
  double latent_norm_epsilon = 1e-5;

  std::int64_t qk_head_dim() const { return latent ? qk_nope_head_dim + qk_rope_head_dim : head_dim; }
  std::int64_t value_head_dim() const { return latent ? v_head_dim : head_dim; }
};

// What Gemma 4's layers that see all before them have otherwise.
struct GlobalHeads {
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t turned_dim = 0;
  bool shares_values = false;
};

enum class MoeStrategy { dense, capacity, sparse };

struct MoeShape {
  std::int64_t experts = 1;
  std::int64_t experts_per_token = 1;
  std::int64_t input_dim = 0;       // of the tokens that enter, and of what comes back
  std::int64_t mlp_dim = 0;
  std::int64_t shared_experts = 0;
  std::int64_t shared_dim = 0;      // the width of all of them together
  bool routed_bias = false;
  bool bias = false;  // of the experts' MLPs
  MoeStrategy strategy = MoeStrategy::sparse;
  bool ring = false;               // sparse: gather tokens rather than exchange them
  double buffer_factor = -1;       // sparse: room for rows on a device, relative to even load; -1 for all
  std::int64_t token_chunks = 1;   // sparse: parts of the sequence that pass in turn
  std::int64_t width_chunks = 1;   // sparse: parts of the width that are fetched in turn
  double capacity_factor = -1;     // capacity
  bool peel_dispatch = false;      // capacity: moe_dispatch_no_expert_sharding
  bool weighs_inputs = false;      // what enters an expert is weighted, by a sigmoid, rather than what it gives
  bool weighs_by_all = false;      // weights are shares of a softmax over all experts, times a learned scale of each
};

// What tells the layers of a cycle apart.
struct LayerShape {
  std::int64_t window = 0;   // keys that a query sees; 0: all before it
  std::int64_t chunk = 0;    // a query sees those of its own chunk of so many places; 0: there are none
  bool turns = true;         // queries and keys have rotary positions
  bool has_experts = false;  // rather than a dense MLP
  bool has_global_heads = false;
};

struct ModelShape {
  std::string name;  // model_name
  Block block = Block::llama2;
  std::int64_t emb_dim = 0;
  std::int64_t layers = 0;
  std::int64_t dense_layers = 0;  // the first ones, of a model that has both kinds
  std::int64_t cycle = 1;         // layers differ within a cycle of this many
  std::vector<LayerShape> of_cycle;  // each of them; one alone where the family's layers are alike
  bool has_pairs = false;            // a layer is the whole cycle: one after another what two layers are
  bool scan = true;
  bool nests_layers = false;         // a cycle's layers but the last are a stack of their own
  AttentionShape attention;
  GlobalHeads global_heads;
  std::int64_t mlp_dim = 0;
  std::vector<std::string> mlp_activations;
  MoeShape moe;
  std::int64_t vocab_size = 0;
  std::int64_t position_rows = 0;  // of a trained table of positions; 0: there is none
  bool tied_embedding = false;
  double norm_epsilon = 1e-5;
  DType weight_dtype = DType::float32;
  DType compute_dtype = DType::bfloat16;
  bool float32_gate_logits = false;
  bool float32_activations = false;
  bool gathered_keys = true;  // attention asks for the whole context of keys and values on each device
  bool norms_above_one = false;   // scales of norms are kept as what they are more than one
  bool scales_embedding = false;  // by the root of emb_dim
  bool norms_attention = false;   // what attention gives passes a norm
  bool norms_mlp = false;         // and so does what the MLP or the experts give

  bool is_moe() const { return moe.experts > 1; }
  std::int64_t moe_layers() const;
  AttentionShape attention_of(const LayerShape& layer) const;
  std::int64_t unlike_layers() const { return static_cast<std::int64_t>(of_cycle.size()); }
  std::int64_t layers_of_model() const { return has_pairs ? 2 * layers : layers; }
  const LayerShape& layer(std::int64_t position) const { return of_cycle[static_cast<std::size_t>(position)]; }
};

ModelShape model_shape(const Settings& settings);

// By which MaxText knows it: model_name, or that of a preset's file.
std::string known_name(const Settings& settings);

// By groups of experts, with a bias that only chooses. MaxText knows such models by their names.
bool routes_by_groups(const Settings& settings);

// The values of a layer that remat_policy=custom has a key of the same name for.
inline constexpr std::string_view kSavedValues[] = {
    "context",  "mlpwi",      "mlpwi_0",  "mlpwi_1",  "mlpwo",         "moe_mlpwi_0", "moe_mlpwi_1", "moe_mlpwo",    "query_proj",
    "key_proj", "value_proj", "qkv_proj", "out_proj", "query_wa_proj", "kv_wa_proj",  "mla_q",       "mla_kv",       "attention_out"};

MoeStrategy strategy_of(const Settings& settings);

// Llama 3.1's rotation, of neighbours. MaxText takes it by the model's name too, whatever rope_type says.
bool turns_as_llama3(const Settings& settings);

// Whether the rotation is one of neighbours, (2i, 2i + 1), rather than of halves.
bool turns_neighbours(const Settings& settings);

// Whether tokens go to random experts.
bool routes_at_random(const Settings& settings);

// In what the optimizer keeps a gradient's mean; adam_pax keeps it like the weights, whatever mu_dtype says.
DType first_moment_dtype(const Settings& settings);

// Rows of a step, from per_device_batch_size, which may be a fraction.
inline constexpr std::int64_t kMostWrittenLayers = 4096;  // where each layer has nodes of its own

struct BatchSizes {
  std::int64_t rows_to_load = 0;   // of a global batch, as read
  std::int64_t rows_to_train = 0;  // of a global batch, as trained: the first of those
  std::int64_t micro_rows = 0;     // of one pass forward and backward
};

BatchSizes batch_sizes(const Settings& settings, std::int64_t devices);
BatchSizes evaluation_sizes(const Settings& settings, std::int64_t devices);  // of an evaluation's batches

}  // namespace moesh::config
