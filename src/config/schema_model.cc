// Model shape: sizes, norms, activations, logits and number formats.
#include "config/schema_topics.h"

namespace moesh::config {
namespace {

using enum Kind;
using enum Status;

constexpr Key kModel[] = {
    {"decoder_block", choice, "llama2",
     "default|llama2|llama4|mistral|mixtral|deepseek|qwen2|qwen2_moe|qwen3|qwen3_moe|qwen3_custom_moe|gpt3|gpt_oss|"
     "qwen3_next|qwen3_5|gemma|gemma2|gemma3|gemma4|olmo3|envy|!gemma4_small|!simple|!simple_mlp|deepseek4",
     used, "family of the decoder's layers"},
    {"global_parameter_scale", integer, "1", "1..1048576", used, "power of two that scales widths, heads and layers together"},
    {"base_emb_dim", integer, "2048", kSize, used, "width of the residual stream, before global_parameter_scale"},
    {"base_mlp_dim", integer, "7168", kSize, used, "hidden width of a dense MLP, before global_parameter_scale"},
    {"base_num_decoder_layers", integer, "16", kCount, used, "number of layers, before global_parameter_scale"},
    {"base_num_query_heads", integer, "16", kCount, used, "number of query heads, before global_parameter_scale"},
    {"base_num_kv_heads", integer, "16", kCount, used, "number of key and value heads, before global_parameter_scale"},
    {"head_dim", integer, "128", kSize, used, "width of one attention head"},
    {"vocab_size", integer, "32000", kSize, used, "rows of the embedding table"},
    {"inhomogeneous_layer_cycle_interval", integer, "1", kCount, used,
     "layers in one cycle of unlike layers, e.g. 2 where windowed and global attention alternate"},
    {"scan_layers", boolean, "true", "", used, "stores the parameters of equal layers as one stacked tensor"},
    {"param_scan_axis", integer, "1", "0..1", used, "place of the layer dim in a stacked parameter"},
    {"mlp_activations", texts, "[silu, linear]", "", used,
     "activations of an MLP's input projections, multiplied, e.g. [silu, linear]; routed experts take the first"},
    {"mlp_activations_limit", real, "-1.0", "-1..1000000", used,
     "clamps what enters the experts' activations to this size; -1 for none (not of gpt_oss)"},
    {"mlp_bias", boolean, "false", "", used, "adds a bias to the projections of MLPs and experts"},
    {"normalization_layer_epsilon", real, "1e-05", kFraction, used, "small number added under the root of a norm"},
    {"layer_norm_epsilon", real, "1e-06", kFraction, used,
     "moesh's own, gemma families: epsilon of the norms around attention and MLPs, which MaxText has at 1e-6"},
    {"dense_init_scale", real, "1.0", "0..1000000", used,
     "scale of the variance of the initial kernels of MoE blocks: router, experts, shared experts"},
    {"dropout_rate", real, "0.0", kFraction, planned_without, "share of activations dropped in training; only 0 here"},
    {"enable_dropout", boolean, "true", "", accepted, "switches dropout layers, of which there are none here"},
    {"logits_via_embedding", boolean, "false", "", used, "uses the embedding table as output projection too"},
    {"normalize_embedding_logits", boolean, "true", "", used, "with logits_via_embedding, divides the logits by the root of the width"},
    {"round_tied_embedding", boolean, "true", "", used,
     "moesh's own: with logits_via_embedding, rounds the table to bfloat16 for the logits whatever dtype says"},
    {"final_logits_soft_cap", real, "0.0", "0..1000000000", used,
     "with logits_via_embedding, squeezes logits into a range by tanh; 0 for none"},
    {"untied_logits_soft_cap", real, "0.0", "0..1000000000", used, "moesh's own: the same without logits_via_embedding"},
    {"fused_qkv", boolean, "false", "", used, "one projection for query, key and value together"},
    {"fused_mlp", boolean, "false", "", used, "one projection for all that an MLP activates together"},
    {"use_post_attn_norm", boolean, "false", "", used, "gemma2, gemma3, gemma4: a norm after attention too"},
    {"use_post_ffw_norm", boolean, "false", "", used, "gemma2, gemma3, gemma4, envy: a norm after the MLP too"},
    {"norm_scales_above_one", boolean, "false", "", used, "moesh's own: norms multiply by 1 more than their scales"},
    {"scale_embeddings", boolean, "false", "", used, "moesh's own: multiplies embeddings by the root of the width"},
    {"use_iota_embed", boolean, "false", "", accepted,
     "looks embeddings up by a one-hot product; moesh gathers, but tells what XLA would hold"},
    {"use_untrainable_positional_embedding", boolean, "false", "", refused, "adds fixed sinusoids of the position to the embeddings"},
    {"trainable_position_size", integer, "-1", "-1..1000000000", used, "rows of a trained table of positions; -1 for none"},
};

constexpr Key kMultiTokenPrediction[] = {
    {"mtp_num_layers", integer, "0", "0..64", used,
     "modules behind the layers that learn to predict tokens further ahead; decoding leaves them out"},
    {"mtp_loss_scaling_factor", real, "0.1", "0..1000000", used, "weight of those modules' mean loss"},
    {"mtp_eval_target_module", integer, "0", "0..64", used,
     "module whose guesses evaluation compares with what the model itself guesses there; 0 for none"},
};

constexpr Key kFormats[] = {
    {"dtype", choice, "bfloat16", "bfloat16|float32|!float16", used,
     "format of activations and of products; sums are always float32"},
    {"weight_dtype", choice, "float32", "bfloat16|float32|!float16", used, "format in which parameters are stored"},
    {"grad_dtype", choice, "float32", "bfloat16|float32|!float16", used, "format of gradients"},
    {"matmul_precision", choice, "default", "default|high|highest|bfloat16|float32", used,
     "how plans for chips multiply float32: in 1, 3 or 6 passes of bf16 on TPUs, in TF32; it is exact here"},
    {"activations_in_float32", boolean, "false", "", used, "computes the MLP's nonlinearities in float32"},
    {"logits_dot_in_fp32", boolean, "false", "", used, "computes the output projection in float32"},
    {"cast_logits_to_fp32", boolean, "true", "", used, "gives logits in float32; the loss is made in float32 either way"},
    {"float32_qk_product", boolean, "false", "", used, "does not round attention's softmax to dtype; its scores never are"},
    {"float32_logits", boolean, "false", "", used, "does not round attention's softmax to dtype"},
};

constexpr Topic kModelTopics[] = {
    {.title = "Model shape", .keys = kModel, .is_of_models = true},
    {.title = "Multi-token prediction", .keys = kMultiTokenPrediction, .is_of_models = true},
    {.title = "Number formats", .keys = kFormats, .is_of_texts = true},
};

}  // namespace

std::span<const Topic> model_topics() { return kModelTopics; }

}  // namespace moesh::config
