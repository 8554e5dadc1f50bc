// The sizes and choices that define a model, derived from the settings in one place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "config/block.h"
#include "config/settings.h"

namespace moesh::config {

// The norm of queries and keys: of each head, or of all heads as one vector, before rotation; or of each head after rotation
// (`after_rope`), without a scale, in layers that rotate.
enum class HeadNorm { none, each, all, after_rope };

struct AttentionShape {
  std::int64_t query_heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t out_dim = 0;         // width of the attention output
  std::int64_t rotary_dim = 0;      // the first dims of a head, which are rotated
  HeadNorm norm = HeadNorm::none;
  bool scales_norm = true;          // that norm with a learned scale
  bool bias = false;
  bool out_bias = false;
  bool sinks = false;
  bool fused = false;               // one kernel makes queries, keys and values
  bool scales_query = false;        // scores are scaled
  bool scales_query_init = false;   // the query kernel is initialised smaller, by sqrt(head_dim)
  bool norms_values = false;        // normalises each head's values before they are cached
  bool scales_value_norm = false;   // with a learned scale
  bool gates_out = false;           // a gate for each head, made with its query, multiplies the result
  bool flat_out = false;            // the heads are one dim of the output kernel
  bool shares_values = false;       // a key before its norm is the value too
  bool rotates_half_prefixes = false;     // rotates the first dims of both halves of a head, by the whole head's frequencies
  bool scales_query_by_position = false;  // queries without rotary positions are scaled up with their position
  double score_scale = -1;          // -1: the family's own
  double score_cap = 0;             // squeezes scores below this; 0 for none
  // Multi-head latent attention.
  bool latent = false;
  std::int64_t q_lora_rank = 0;  // 0: the query is projected directly
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;
  double latent_norm_epsilon = 1e-5;
  // Of compressed attention: the heads go out in so many groups, through a vector of this width each.
  std::int64_t out_groups = 0;
  std::int64_t out_rank = 0;
  // Of latent and compressed attention: heads that score keys for each query, which sees those with the best scores.
  std::int64_t index_heads = 0;  // 0: it sees all
  std::int64_t index_dim = 0;
  std::int64_t index_keys = 0;  // that a query sees

  std::int64_t qk_head_dim() const { return latent ? qk_nope_head_dim + qk_rope_head_dim : head_dim; }
  std::int64_t value_head_dim() const { return latent ? v_head_dim : head_dim; }
};

// Linear attention (Gated DeltaNet), whose layers have a memory of fixed size instead of keys and values.
struct DeltaShape {
  std::int64_t key_heads = 0;
  std::int64_t value_heads = 0;
  std::int64_t key_dim = 0;    // of a head
  std::int64_t value_dim = 0;  // of a head
  std::int64_t window = 0;     // tokens that the convolution before it sees
  bool norms_keys = true;      // keys and queries have length 1
};

inline constexpr std::int64_t kMostPermutedStreams = 6;  // as their permutations are counted

// Streams of the residual (manifold-constrained hyper-connections): each block reads a weighted sum of them, which a doubly stochastic
// matrix mixes behind it.
struct StreamShape {
  std::int64_t count = 1;
  std::int64_t iterations = 0;  // that make a matrix; 0: it is a mean of permutations
  bool weighs_end = false;      // what leaves the layers is a weighted sum of the streams rather than their sum
};

// The settings of Gemma 4's layers with full attention that differ from the other layers.
struct GlobalHeads {
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t rotary_dim = 0;
  bool shares_values = false;
};

enum class MoeStrategy { dense, capacity, sparse };

// What makes scores of a router's logits.
enum class ScoreFunction { none, softmax, sigmoid, sqrtsoftplus };

// How a token's experts are chosen and weighted by the router's logits.
struct RoutingShape {
  ScoreFunction score_function = ScoreFunction::none;
  bool softmax_of_chosen = true;      // weights are a softmax over the scores of the chosen experts; otherwise these scores
  bool normalize = false;             // weights are divided by their sum
  double normalize_epsilon = 0;       // which this is added to
  double scale = 1;                   // of the weights
  std::int64_t groups = 0;            // of experts, of which some are chosen first by the sum of their best scores; 0: there are none
  std::int64_t chosen_groups = 0;
  int group_score_terms = 2;
  bool weighs_without_bias = false;   // the router's bias affects the choice alone
};

struct MoeShape {
  std::int64_t experts = 1;
  std::int64_t experts_per_token = 1;
  std::int64_t input_dim = 0;       // width of the tokens that enter, and of the result
  std::int64_t mlp_dim = 0;
  std::int64_t shared_experts = 0;
  std::int64_t shared_dim = 0;      // width of all shared experts together
  RoutingShape routing = {};
  bool routed_bias = false;
  bool bias = false;  // the experts' MLPs have biases
  double limit = 0;   // what enters the experts' activations is clamped to this size; 0: it is not
  MoeStrategy strategy = MoeStrategy::sparse;
  bool ring = false;               // sparse: gathers tokens rather than exchanging them
  double buffer_factor = -1;       // sparse: room for rows on a device, relative to even load; -1: room for all
  std::int64_t token_chunks = 1;   // sparse: parts of the sequence that pass the experts in turn
  std::int64_t width_chunks = 1;   // sparse: parts of the width that are fetched in turn
  bool overlaps = false;           // sparse: one part is on its way while another is multiplied
  double capacity_factor = -1;     // capacity: slots per expert, relative to even load
  bool peel_dispatch = false;      // capacity: takes the expert axis off the batch of slots (moe_dispatch_no_expert_sharding)
  bool weights_inputs = false;     // an expert's input is weighted, by a sigmoid, rather than its output
  bool softmax_over_all = false;   // weights are shares of a softmax over all experts, times a learned scale per expert

  // dense: weights are applied to the experts' results rather than to what enters the down projection, if those are narrower.
  bool weights_results() const { return mlp_dim > input_dim; }
};

// How the layers of a cycle differ.
struct LayerShape {
  std::int64_t window = 0;   // how many keys a query sees; 0: all before it
  std::int64_t chunk = 0;    // length of the chunks, of which a query sees only its own; 0: there are none
  bool has_rope = true;      // whether queries and keys have rotary positions
  bool has_experts = false;  // experts rather than a dense MLP
  bool has_global_heads = false;
  bool is_linear = false;  // linear attention
  std::int64_t pooled = 0;         // compressed attention: how many tokens make a pool, which queries see too; 0: there are no pools
  bool has_given_experts = false;  // those of each token of the vocabulary, in a table

  // Pools of few tokens take in the tokens before theirs too, and are so many that some are chosen for each query.
  bool chooses_pools() const { return pooled == 4; }
};

struct ModelShape {
  std::string name;  // model_name
  Block block = Block::llama2;
  std::int64_t emb_dim = 0;
  std::int64_t layers = 0;
  std::int64_t dense_layers = 0;  // the first layers, in a model that has dense and MoE layers
  std::int64_t given_layers = 0;  // the first layers, in which a table gives each token's experts
  std::int64_t cycle = 1;         // length of the cycle within which layers differ
  std::vector<LayerShape> of_cycle;  // the layers of a cycle; a single one if all layers are alike
  bool has_pairs = false;            // each of `layers` is a pair of layers, one after the other
  bool scan = true;
  std::int64_t batch_parts = 1;      // of a training batch, which go through layers with experts in turn
  bool nests_layers = false;         // the layers of a cycle but its last are a stack of their own
  std::int64_t prediction_modules = 0;  // of multi-token prediction: each has layers of its own, a cycle of the last kind
  AttentionShape attention;
  DeltaShape delta;
  StreamShape streams;
  GlobalHeads global_heads;
  std::int64_t mlp_dim = 0;
  std::vector<std::string> mlp_activations;
  MoeShape moe;
  std::int64_t vocab_size = 0;
  std::int64_t position_rows = 0;  // rows of a trained table of positions; 0: there is none
  bool tied_embedding = false;
  double logits_cap = 0;  // squeezes logits below this; 0 for none
  double norm_epsilon = 1e-5;
  double layer_norm_epsilon = 1e-5;  // of the norms around attention and MLPs
  DType weight_dtype = DType::float32;
  DType compute_dtype = DType::bfloat16;
  bool float32_gate_logits = false;
  bool float32_activations = false;
  bool gathers_kv = true;             // attention asks for the whole context of keys and values on each device
  bool norm_scale_is_offset = false;  // norm scales are stored as their difference from one
  bool labels_layer_norms = true;     // norm scales of layers have a label
  bool scales_embedding = false;  // multiplies embeddings by sqrt(emb_dim)
  bool norms_attention = false;   // normalises the result of attention
  bool norms_mlp = false;         // normalises the result of the MLP or the experts

  bool is_moe() const { return moe.experts > 1; }
  std::int64_t moe_layers() const;  // with those of prediction modules
  std::int64_t layers_per_module() const { return block == Block::deepseek ? 1 : layers_per_cycle(); }
  AttentionShape attention_of(const LayerShape& layer) const;
  std::int64_t layers_per_cycle() const { return static_cast<std::int64_t>(of_cycle.size()); }
  std::int64_t layers_of_model() const { return has_pairs ? 2 * layers : layers; }
  const LayerShape& layer(std::int64_t position) const { return of_cycle[static_cast<std::size_t>(position)]; }
};

ModelShape model_shape(const Settings& settings);

// The name by which MaxText knows the model: model_name, or the name of a preset's file.
std::string known_name(const Settings& settings);

// Whether routing picks groups of experts first, with a bias that affects only the choice. MaxText knows such models by their names.
bool routes_by_groups(const Settings& settings);

// Whether the family heeds mlp_activations_limit, attn_logits_soft_cap and layer_norm_epsilon.
bool clamps_experts(const Settings& settings);
bool caps_scores(const Settings& settings);
bool is_gemma(const Settings& settings);

bool has_delta_layers(const Settings& settings);      // whether it is a family with linear attention
bool has_latent_attention(const Settings& settings);  // which only one family has, whatever attention_type says of others

// Whether there are more positions than the model was trained with at first.
bool stretches_positions(const Settings& settings);

// The values of a layer for which remat_policy=custom has a key of the same name.
inline constexpr std::string_view kSavedValues[] = {
    "context",  "mlpwi",      "mlpwi_0",  "mlpwi_1",  "mlpwo",         "moe_mlpwi_0", "moe_mlpwi_1", "moe_mlpwo",    "query_proj",
    "key_proj", "value_proj", "qkv_proj", "out_proj", "query_wa_proj", "kv_wa_proj",  "mla_q",       "mla_kv",       "attention_out",
    "indexer_cutoff_threshold"};

MoeStrategy strategy_of(const Settings& settings);

// Whether the loss leaves out that of the next tokens, because an indexer warms up.
bool leaves_out_entropy(const Settings& settings);

// Whether rotation is Llama 3.1's, of neighbours. MaxText also goes by the model's name, whatever rope_type says.
bool uses_llama3_rope(const Settings& settings);
bool turns_as_yarn(const Settings& settings);
bool turns_plainly(const Settings& settings);  // neither of these

// How layers with a window are rotated, if not as the others. In MaxText rope_type=default alone gives them a wavelength of their own; in
// Hugging Face's models (local_rope_type=default) their frequencies are plain, whatever those of other layers are.
struct WindowRotation {
  std::int64_t max_timescale = 0, min_timescale = 1;
  double linear_scaling = 1;
};
std::optional<WindowRotation> rotation_of_windows(const Settings& settings);

// Whether rotation pairs neighbours, (2i, 2i + 1), rather than halves.
bool rope_is_interleaved(const Settings& settings);

// Whether tokens go to random experts.
bool routes_at_random(const Settings& settings);

// The type of the optimizer's first moment; adam_pax keeps it in the type of the weights, whatever mu_dtype says.
DType first_moment_dtype(const Settings& settings);

inline constexpr std::int64_t kMostWrittenLayers = 4096;  // layers that each have nodes of their own in the graph

}  // namespace moesh::config
