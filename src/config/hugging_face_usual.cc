// What keys of config.json stand for where a file leaves them out: the defaults of transformers' classes of configurations.
#include <algorithm>
#include <iterator>

#include "config/hugging_face_families.h"

namespace moesh::config {
namespace {

constexpr HuggingFaceUsual kLlama[] = {{"hidden_act", R"("silu")"},      {"max_position_embeddings", "2048"}, {"rms_norm_eps", "1e-6"},
                                       {"tie_word_embeddings", "false"}, {"attention_bias", "false"},         {"mlp_bias", "false"}};

constexpr HuggingFaceUsual kLlama4[] = {{"intermediate_size_mlp", "16384"},
                                        {"num_key_value_heads", "8"},
                                        {"head_dim", "128"},
                                        {"hidden_act", R"("silu")"},
                                        {"max_position_embeddings", "131072"},
                                        {"rms_norm_eps", "1e-5"},
                                        {"tie_word_embeddings", "false"},
                                        {"num_experts_per_tok", "1"},
                                        {"num_local_experts", "16"},
                                        {"interleave_moe_layer_step", "1"},
                                        {"use_qk_norm", "true"},
                                        {"router_jitter_noise", "0"},
                                        {"no_rope_layer_interval", "4"},
                                        {"attention_chunk_size", "8192", true},
                                        {"attn_temperature_tuning", "true"},
                                        {"floor_scale", "8192"},
                                        {"attn_scale", "0.1"},
                                        {"attention_bias", "false"}};

constexpr HuggingFaceUsual kMistral[] = {{"num_key_value_heads", "8"},          {"hidden_act", R"("silu")"},
                                         {"max_position_embeddings", "131072"}, {"rms_norm_eps", "1e-6"},
                                         {"tie_word_embeddings", "false"},      {"sliding_window", "4096", true}};

constexpr HuggingFaceUsual kMixtral[] = {
    {"num_key_value_heads", "8"}, {"hidden_act", R"("silu")"},      {"max_position_embeddings", "131072"},
    {"rms_norm_eps", "1e-5"},     {"tie_word_embeddings", "false"}, {"num_experts_per_tok", "2"},
    {"num_local_experts", "8"},   {"router_jitter_noise", "0"}};

constexpr HuggingFaceUsual kQwen2[] = {{"num_key_value_heads", "32", true},  {"hidden_act", R"("silu")"},
                                       {"max_position_embeddings", "32768"}, {"rms_norm_eps", "1e-6"},
                                       {"tie_word_embeddings", "false"},     {"use_sliding_window", "false"},
                                       {"sliding_window", "4096", true},     {"max_window_layers", "28"}};

constexpr HuggingFaceUsual kQwen3[] = {{"num_key_value_heads", "32", true},
                                       {"head_dim", "128"},
                                       {"hidden_act", R"("silu")"},
                                       {"max_position_embeddings", "32768"},
                                       {"rms_norm_eps", "1e-6"},
                                       {"tie_word_embeddings", "false"},
                                       {"attention_bias", "false"},
                                       {"use_sliding_window", "false"},
                                       {"sliding_window", "4096", true},
                                       {"max_window_layers", "28"}};

constexpr HuggingFaceUsual kQwen2Moe[] = {{"num_key_value_heads", "16", true},
                                          {"hidden_act", R"("silu")"},
                                          {"max_position_embeddings", "32768"},
                                          {"rms_norm_eps", "1e-6"},
                                          {"tie_word_embeddings", "false"},
                                          {"use_sliding_window", "false"},
                                          {"sliding_window", "4096", true},
                                          {"max_window_layers", "28"},
                                          {"decoder_sparse_step", "1"},
                                          {"moe_intermediate_size", "1408"},
                                          {"shared_expert_intermediate_size", "5632"},
                                          {"num_experts_per_tok", "4"},
                                          {"num_experts", "60"},
                                          {"norm_topk_prob", "false"},
                                          {"qkv_bias", "true"}};

constexpr HuggingFaceUsual kQwen3Moe[] = {
    {"num_key_value_heads", "4"},     {"hidden_act", R"("silu")"},      {"max_position_embeddings", "32768"},
    {"rms_norm_eps", "1e-6"},         {"tie_word_embeddings", "false"}, {"attention_bias", "false"},
    {"use_sliding_window", "false"},  {"sliding_window", "4096", true}, {"decoder_sparse_step", "1"},
    {"moe_intermediate_size", "768"}, {"num_experts_per_tok", "8"},     {"num_experts", "128"},
    {"norm_topk_prob", "false"}};

constexpr HuggingFaceUsual kQwen3Next[] = {{"num_key_value_heads", "2"},
                                           {"hidden_act", R"("silu")"},
                                           {"max_position_embeddings", "32768"},
                                           {"rms_norm_eps", "1e-6"},
                                           {"tie_word_embeddings", "false"},
                                           {"attention_bias", "false"},
                                           {"head_dim", "256"},
                                           {"linear_conv_kernel_dim", "4"},
                                           {"linear_key_head_dim", "128"},
                                           {"linear_value_head_dim", "128"},
                                           {"linear_num_key_heads", "16"},
                                           {"linear_num_value_heads", "32"},
                                           {"decoder_sparse_step", "1"},
                                           {"moe_intermediate_size", "512"},
                                           {"shared_expert_intermediate_size", "512"},
                                           {"num_experts_per_tok", "10"},
                                           {"num_experts", "512"},
                                           {"norm_topk_prob", "true"}};

constexpr HuggingFaceUsual kQwen35Moe[] = {{"vocab_size", "248320"},
                                           {"hidden_size", "2048"},
                                           {"num_hidden_layers", "40"},
                                           {"num_attention_heads", "16"},
                                           {"num_key_value_heads", "2"},
                                           {"hidden_act", R"("silu")"},
                                           {"max_position_embeddings", "32768"},
                                           {"rms_norm_eps", "1e-6"},
                                           {"tie_word_embeddings", "false"},
                                           {"attention_bias", "false"},
                                           {"head_dim", "256"},
                                           {"linear_conv_kernel_dim", "4"},
                                           {"linear_key_head_dim", "128"},
                                           {"linear_value_head_dim", "128"},
                                           {"linear_num_key_heads", "16"},
                                           {"linear_num_value_heads", "32"},
                                           {"moe_intermediate_size", "512"},
                                           {"shared_expert_intermediate_size", "512"},
                                           {"num_experts_per_tok", "8"},
                                           {"num_experts", "256"},
                                           {"intermediate_size", "512"}};

constexpr HuggingFaceUsual kDeepseekV2[] = {{"hidden_act", R"("silu")"},
                                            {"max_position_embeddings", "2048"},
                                            {"rms_norm_eps", "1e-6"},
                                            {"tie_word_embeddings", "false"},
                                            {"attention_bias", "false"},
                                            {"mlp_bias", "false"},
                                            {"first_k_dense_replace", "0"},
                                            {"kv_lora_rank", "512"},
                                            {"q_lora_rank", "1536", true},
                                            {"n_routed_experts", "64"},
                                            {"n_shared_experts", "2"},
                                            {"qk_nope_head_dim", "128"},
                                            {"qk_rope_head_dim", "64"},
                                            {"routed_scaling_factor", "1"},
                                            {"topk_method", R"("greedy")", true},
                                            {"v_head_dim", "128"},
                                            {"moe_intermediate_size", "1407"}};

constexpr HuggingFaceUsual kDeepseekV3[] = {{"moe_intermediate_size", "2048"},
                                            {"num_key_value_heads", "128", true},
                                            {"n_shared_experts", "1"},
                                            {"n_routed_experts", "256"},
                                            {"routed_scaling_factor", "2.5"},
                                            {"kv_lora_rank", "512"},
                                            {"q_lora_rank", "1536", true},
                                            {"qk_rope_head_dim", "64"},
                                            {"v_head_dim", "128", true},
                                            {"qk_nope_head_dim", "128"},
                                            {"n_group", "8", true},
                                            {"topk_group", "4", true},
                                            {"num_experts_per_tok", "8", true},
                                            {"first_k_dense_replace", "3", true},
                                            {"norm_topk_prob", "true", true},
                                            {"hidden_act", R"("silu")"},
                                            {"max_position_embeddings", "4096"},
                                            {"rms_norm_eps", "1e-6"},
                                            {"tie_word_embeddings", "false"},
                                            {"rope_interleave", "true", true},
                                            {"attention_bias", "false"}};

constexpr HuggingFaceUsual kDeepseekV32[] = {{"moe_intermediate_size", "2048"},
                                             {"num_key_value_heads", "128"},
                                             {"n_shared_experts", "1"},
                                             {"n_routed_experts", "256"},
                                             {"routed_scaling_factor", "2.5"},
                                             {"kv_lora_rank", "512"},
                                             {"q_lora_rank", "1536"},
                                             {"qk_rope_head_dim", "64"},
                                             {"v_head_dim", "128"},
                                             {"qk_nope_head_dim", "128"},
                                             {"n_group", "8"},
                                             {"topk_group", "4"},
                                             {"num_experts_per_tok", "8"},
                                             {"norm_topk_prob", "true"},
                                             {"hidden_act", R"("silu")"},
                                             {"max_position_embeddings", "163840"},
                                             {"rms_norm_eps", "1e-6"},
                                             {"tie_word_embeddings", "false"},
                                             {"attention_bias", "false"},
                                             {"index_topk", "2048"},
                                             {"index_head_dim", "128"},
                                             {"index_n_heads", "64"},
                                             {"mlp_bias", "false"},
                                             {"first_k_dense_replace", "3"}};

constexpr HuggingFaceUsual kGptOss[] = {{"num_local_experts", "128"},
                                        {"head_dim", "64"},
                                        {"num_key_value_heads", "8"},
                                        {"sliding_window", "128", true},
                                        {"tie_word_embeddings", "false"},
                                        {"hidden_act", R"("silu")"},
                                        {"max_position_embeddings", "131072"},
                                        {"rms_norm_eps", "1e-5"},
                                        {"num_experts_per_tok", "4"},
                                        {"swiglu_alpha", "1.702"},
                                        {"swiglu_limit", "7"},
                                        {"attention_bias", "true"}};

constexpr HuggingFaceUsual kGlm4Moe[] = {{"num_key_value_heads", "8"},
                                         {"hidden_act", R"("silu")"},
                                         {"max_position_embeddings", "131072"},
                                         {"rms_norm_eps", "1e-5"},
                                         {"tie_word_embeddings", "false"},
                                         {"attention_bias", "false"},
                                         {"moe_intermediate_size", "1408"},
                                         {"num_experts_per_tok", "8"},
                                         {"n_shared_experts", "1"},
                                         {"n_routed_experts", "128"},
                                         {"routed_scaling_factor", "1"},
                                         {"n_group", "1"},
                                         {"topk_group", "1"},
                                         {"first_k_dense_replace", "1"},
                                         {"norm_topk_prob", "true"},
                                         {"use_qk_norm", "false"}};

constexpr HuggingFaceUsual kGemma[] = {
    {"num_key_value_heads", "16"},       {"head_dim", "256"},      {"hidden_act", R"("gelu_pytorch_tanh")"},
    {"max_position_embeddings", "8192"}, {"rms_norm_eps", "1e-6"}, {"tie_word_embeddings", "true"},
    {"attention_bias", "false"}};

constexpr HuggingFaceUsual kGemma2[] = {{"num_key_value_heads", "4"},
                                        {"head_dim", "256"},
                                        {"hidden_activation", R"("gelu_pytorch_tanh")"},
                                        {"max_position_embeddings", "8192"},
                                        {"rms_norm_eps", "1e-6"},
                                        {"tie_word_embeddings", "true"},
                                        {"attention_bias", "false"},
                                        {"query_pre_attn_scalar", "256"},
                                        {"sliding_window", "4096", true},
                                        {"final_logit_softcapping", "30", true},
                                        {"attn_logit_softcapping", "50", true}};

constexpr HuggingFaceUsual kGemma3[] = {{"vocab_size", "262208"},
                                        {"hidden_size", "2304"},
                                        {"intermediate_size", "9216"},
                                        {"num_hidden_layers", "26"},
                                        {"num_attention_heads", "8"},
                                        {"num_key_value_heads", "4"},
                                        {"head_dim", "256"},
                                        {"hidden_activation", R"("gelu_pytorch_tanh")"},
                                        {"max_position_embeddings", "131072"},
                                        {"rms_norm_eps", "1e-6"},
                                        {"tie_word_embeddings", "true"},
                                        {"attention_bias", "false"},
                                        {"query_pre_attn_scalar", "256"},
                                        {"sliding_window", "4096", true},
                                        {"use_bidirectional_attention", "false", true}};

constexpr HuggingFaceUsual kGemma4[] = {{"vocab_size", "262144"},
                                        {"hidden_size", "2304"},
                                        {"intermediate_size", "9216"},
                                        {"num_hidden_layers", "30"},
                                        {"num_attention_heads", "8"},
                                        {"num_key_value_heads", "4"},
                                        {"head_dim", "256"},
                                        {"hidden_activation", R"("gelu_pytorch_tanh")"},
                                        {"max_position_embeddings", "131072"},
                                        {"rms_norm_eps", "1e-6"},
                                        {"tie_word_embeddings", "true"},
                                        {"attention_bias", "false"},
                                        {"sliding_window", "512"},
                                        {"attention_k_eq_v", "false"},
                                        {"num_kv_shared_layers", "0"},
                                        {"enable_moe_block", "false"}};

constexpr HuggingFaceUsual kOlmo3[] = {{"hidden_act", R"("silu")"},      {"max_position_embeddings", "2048"},
                                       {"tie_word_embeddings", "false"}, {"attention_bias", "false"},
                                       {"rms_norm_eps", "1e-5"},         {"sliding_window", "4096", true}};

}  // namespace

std::span<const HuggingFaceUsual> hugging_face_usual(std::string_view model_type) {
  constexpr std::pair<std::string_view, std::span<const HuggingFaceUsual>> kUsual[] = {{"llama", kLlama},
                                                                                       {"llama4_text", kLlama4},
                                                                                       {"mistral", kMistral},
                                                                                       {"mixtral", kMixtral},
                                                                                       {"qwen2", kQwen2},
                                                                                       {"qwen3", kQwen3},
                                                                                       {"qwen2_moe", kQwen2Moe},
                                                                                       {"qwen3_moe", kQwen3Moe},
                                                                                       {"qwen3_next", kQwen3Next},
                                                                                       {"qwen3_5_moe_text", kQwen35Moe},
                                                                                       {"deepseek_v2", kDeepseekV2},
                                                                                       {"deepseek_v3", kDeepseekV3},
                                                                                       {"deepseek_v32", kDeepseekV32},
                                                                                       {"gpt_oss", kGptOss},
                                                                                       {"glm4_moe", kGlm4Moe},
                                                                                       {"gemma", kGemma},
                                                                                       {"gemma2", kGemma2},
                                                                                       {"gemma3_text", kGemma3},
                                                                                       {"gemma4_text", kGemma4},
                                                                                       {"olmo3", kOlmo3},
                                                                                       {"kimi_k2", kDeepseekV3}};
  return std::find_if(std::begin(kUsual), std::end(kUsual), [&](const auto& of) { return of.first == model_type; })->second;
}

}  // namespace moesh::config
