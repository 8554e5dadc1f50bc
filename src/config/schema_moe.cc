// Experts: how tokens are routed, and how they reach their experts.
#include "config/schema_topics.h"

namespace moesh::config {
namespace {

using enum Kind;
using enum Status;

constexpr std::string_view kHelpTwoStageGather =
    "gathers weights over fsdp and fsdp_transpose one after the other; moesh prices both ways";

constexpr Key kMoe[] = {
    {"num_experts", integer, "1", kCount, used, "routed experts in each MoE layer; 1 for dense MLPs"},
    {"num_experts_per_tok", integer, "1", kCount, used, "experts each token is sent to"},
    {"base_moe_mlp_dim", integer, "-1", kSizeOrAuto, used,
     "hidden width of an expert, before global_parameter_scale; base_mlp_dim if -1, always of mixtral and gpt_oss"},
    {"first_num_dense_layers", integer, "0", kCountOrZero, used,
     "layers at the start that have a dense MLP instead of experts"},
    {"shared_experts", integer, "0", kCountOrZero, used, "experts that every token passes, beside the routed ones"},
    {"shared_expert_mlp_dim", integer, "-1", kSizeOrAuto, used,
     "moesh's own: hidden width of one shared expert; -1 for that of a routed one"},
    {"moe_expert_input_dim", integer, "-1", kSizeOrAuto, used,
     "qwen3_custom_moe: width of the tokens that enter the experts; -1 for that of the residual stream"},
    {"interleave_moe_layer_step", integer, "1", kCount, used, "llama4, envy: every so many layers, one with experts"},
    {"layer_mlp", texts, "[]", "", used,
     "moesh's own: dense or moe for each layer of a cycle; empty for the family's own"},
    {"first_num_hash_layers", integer, "0", kCountOrZero, used,
     "deepseek4: layers at the start in which a table gives each token's experts"},
    {"prefuse_moe_weights", boolean, "false", "", refused, "stores the two input projections of an expert as one"},
    {"fuse_expert_scales", boolean, "false", "", refused, "folds per-expert scales into the experts' weights"},
    {"padded_base_moe_mlp_dim", integer, "null", "", refused,
     "hidden width to which the weights of an expert are padded"},
};

constexpr Key kRouting[] = {
    {"routed_score_func", choice, "", "|softmax|sigmoid|sqrtsoftplus", used,
     "from router logits to scores; empty for the family's own"},
    {"routed_bias", boolean, "false", "", used,
     "a bias per expert that takes part in the choice of experts, not in their weights"},
    {"routed_bias_update_rate", real, "0.0", "0..1000000", used,
     "step by which that bias moves towards even load after each step; 0 for none"},
    {"routed_scaling_factor", real, "1.0", "0..1000000", used, "factor on the weights of the chosen experts"},
    {"norm_topk_prob", boolean, "false", "", used, "makes the weights of a token's chosen experts sum to 1"},
    {"routed_weights", choice, "", "|softmax|scores|normalized", used,
     "moesh's own: weights of the chosen: a softmax over them, their scores, or these summing to 1; empty: family's"},
    {"routing_group_score", choice, "", "|best|best_two", used,
     "moesh's own: what scores a group of experts; given, the bias only chooses; empty: by the model's name"},
    {"n_routing_groups", integer, "-1", kCountOrAuto, used,
     "groups of experts among which some are chosen first, by models named deepseek3...; -1 for none"},
    {"topk_routing_group", integer, "-1", kCountOrAuto, used,
     "groups that a token may choose experts from; -1 for all"},
    {"load_balance_loss_weight", real, "0.0", "0..1000000", used,
     "weight of the loss that evens out the experts' load; 0 for none"},
    {"use_random_routing", boolean, "false", "", used, "sends tokens to random experts, to test or to measure", OnTexts::dropped},
    {"router_skew", real, "-1.0", "-1..100", used,
     "moesh's own: draws expert e in proportion to (e + 1)^-SKEW, to measure or foresee uneven load; -1 for none", OnTexts::dropped},
    {"float32_weight_sum", boolean, "true", "", used, "sums the experts' results in float32"},
    {"float32_gate_logits", boolean, "false", "", used, "computes the router in float32"},
    {"log_moe_bias_norms", boolean, "false", "", accepted, "logs the norms of the router's biases"},
};

constexpr Key kDispatch[] = {
    {"sparse_matmul", boolean, "true", "", used, "computes each expert on its own tokens only; false for dense or capacity-bound experts"},
    {"capacity_factor", real, "-1.0", "-1..1000000", used,
     "with sparse_matmul=false, room per expert relative to even load, rest dropped; -1 for no limit", OnTexts::dropped},
    {"use_ring_of_experts", boolean, "false", "", used,
     "gathers tokens over the expert axes, and scatters sums back, rather than all-to-all"},
    {"ragged_buffer_factor", real, "-1.0", "-1..1000000", used,
     "rows a device has room for relative to even load, rest dropped; -1 for all; rings need use_ragged_sort", OnTexts::dropped},
    {"num_moe_token_chunks", integer, "1", kCount, used,
     "parts of the sequence that pass the experts in turn, so that wire and work overlap; 1 for none", OnTexts::dropped},
    {"moe_chunk_barrier", boolean, "false", "", used,
     "begins a part of num_moe_token_chunks when the one before is done: less memory, and no overlap", OnTexts::dropped},
    {"num_moe_emb_chunks", integer, "0", kCountOrZero, used,
     "parts of the width that are fetched in turn, so that wire and work overlap; 0 for none"},
    {"moe_dispatch_no_expert_sharding", boolean, "false", "", used,
     "capacity path: takes the expert axis off the batch, so that tokens go to experts, not weights to tokens", OnTexts::dropped},
    {"use_ragged_sort", boolean, "false", "", used,
     "permutes only the rows routed here, as is always done; lets rings of experts heed ragged_buffer_factor", OnTexts::dropped},
    {"shard_exp_on_fsdp", boolean, "false", "", used,
     "lays the expert dim of experts' kernels as embed_moe is laid, and their embedding nowhere"},
    {"use_2d_fsdp_sharding", boolean, "false", "", used,
     "lays the first two dims of experts' kernels as embed_moe and mlp_moe are laid, and the last nowhere"},
    {"expert_shard_attention_option", choice, "", "|fsdp|context|tp", used,
     "deprecated: tp is custom_mesh_and_rule=ep-tp now, context is ep-as-cp, fsdp the default rules"},
    {"moe_fsdp_use_two_stage_all_gather", boolean, "false", "", accepted, kHelpTwoStageGather},
    {"use_batch_split_schedule", boolean, "false", "", used,
     "lets parts of the batch take turns in layers with experts, so that wire and work overlap"},
    {"batch_split_factor", integer, "1", kCount, used, "parts of the batch that use_batch_split_schedule makes"},
};

constexpr Topic kMoeTopics[] = {
    {.title = "Experts", .keys = kMoe, .is_of_models = true},
    {.title = "Routing", .keys = kRouting, .is_of_models = true},
    {.title = "Reaching the experts", .keys = kDispatch, .is_of_texts = true},
};

}  // namespace

std::span<const Topic> moe_topics() { return kMoeTopics; }

}  // namespace moesh::config
