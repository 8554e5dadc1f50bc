// Kernels of other engines: their tile sizes, layouts and cost estimates.
#include "config/schema_topics.h"

namespace moesh::config {
namespace {

using enum Kind;
using enum Status;

constexpr std::string_view kHelpGroupedMatmul = "which kernel multiplies rows by experts on a TPU";
constexpr std::string_view kHelpGatherKernel = "which kernel gathers and sorts rows on a TPU";
constexpr std::string_view kHelpCostEstimate = "cost of a kernel as told to the XLA scheduler; -1 to leave it alone";
constexpr std::string_view kHelpMatmulTile = "tile size of a TPU grouped-matmul kernel";
constexpr std::string_view kHelpAttentionKernel = "setting of a TPU attention kernel";
constexpr std::string_view kHelpAttentionBlock = "block size of a TPU attention kernel";
constexpr std::string_view kHelpWindowedLayers = "the same for windowed layers; null for the setting without local_";
constexpr std::string_view kHelpRaggedAttention = "setting of a TPU attention kernel for serving";
constexpr std::string_view kHelpTransformerEngine = "setting of the Transformer Engine library";

constexpr Key kGmm[] = {
    {"megablox", boolean, "true", "", accepted, kHelpGroupedMatmul},
    {"use_tokamax_gmm", boolean, "false", "", accepted, kHelpGroupedMatmul},
    {"use_gmm_v2", boolean, "false", "", accepted, kHelpGroupedMatmul},
    {"merge_gating_gmm", boolean, "false", "", accepted, kHelpGroupedMatmul},
    {"use_custom_sort_vjp", boolean, "true", "", accepted,
     "backward pass of a sort as another engine writes it; results are equal"},
    {"use_gather_mosaic_kernel", boolean, "false", "", accepted, kHelpGatherKernel},
    {"ragged_sort_use_single_sparsecore", boolean, "false", "", accepted, kHelpGatherKernel},
    {"ragged_gather_fallback", boolean, "false", "", accepted, kHelpGatherKernel},
    {"ragged_gather_reduce_fallback", boolean, "false", "", accepted, kHelpGatherKernel},
    {"ragged_gather_cost_estimate_flops", integer, "-1", "", accepted, kHelpCostEstimate},
    {"ragged_gather_reduce_cost_estimate_flops", integer, "-1", "", accepted, kHelpCostEstimate},
    {"ragged_gather_cost_estimate_bytes_accessed", integer, "-1", "", accepted, kHelpCostEstimate},
    {"ragged_gather_reduce_cost_estimate_bytes_accessed", integer, "-1", "", accepted, kHelpCostEstimate},
    {"wi_tile_fwd_batch_seq", integer, "512", "", accepted, kHelpMatmulTile},
    {"wi_tile_fwd_embed_dim", integer, "1024", "", accepted, kHelpMatmulTile},
    {"wi_tile_fwd_mlp_dim", integer, "1024", "", accepted, kHelpMatmulTile},
    {"wi_tile_dlhs_batch_seq", integer, "512", "", accepted, kHelpMatmulTile},
    {"wi_tile_dlhs_embed_dim", integer, "1024", "", accepted, kHelpMatmulTile},
    {"wi_tile_dlhs_mlp_dim", integer, "1024", "", accepted, kHelpMatmulTile},
    {"wi_tile_drhs_batch_seq", integer, "512", "", accepted, kHelpMatmulTile},
    {"wi_tile_drhs_embed_dim", integer, "1024", "", accepted, kHelpMatmulTile},
    {"wi_tile_drhs_mlp_dim", integer, "1024", "", accepted, kHelpMatmulTile},
    {"wo_tile_fwd_batch_seq", integer, "512", "", accepted, kHelpMatmulTile},
    {"wo_tile_fwd_embed_dim", integer, "1024", "", accepted, kHelpMatmulTile},
    {"wo_tile_fwd_mlp_dim", integer, "1024", "", accepted, kHelpMatmulTile},
    {"wo_tile_dlhs_batch_seq", integer, "512", "", accepted, kHelpMatmulTile},
    {"wo_tile_dlhs_embed_dim", integer, "1024", "", accepted, kHelpMatmulTile},
    {"wo_tile_dlhs_mlp_dim", integer, "1024", "", accepted, kHelpMatmulTile},
    {"wo_tile_drhs_batch_seq", integer, "512", "", accepted, kHelpMatmulTile},
    {"wo_tile_drhs_embed_dim", integer, "1024", "", accepted, kHelpMatmulTile},
    {"wo_tile_drhs_mlp_dim", integer, "1024", "", accepted, kHelpMatmulTile},
};

constexpr Key kSplash[] = {
    {"use_tokamax_splash", boolean, "false", "", accepted, kHelpAttentionKernel},
    {"use_jax_splash", boolean, "false", "", accepted, kHelpAttentionKernel},
    {"force_q_layout", boolean, "false", "", accepted, kHelpAttentionKernel},
    {"use_splash_scheduler", boolean, "false", "", accepted, kHelpAttentionKernel},
    {"sa_block_q", integer, "512", "", accepted, kHelpAttentionBlock},
    {"sa_block_kv", integer, "512", "", accepted, kHelpAttentionBlock},
    {"sa_block_kv_compute", integer, "512", "", accepted, kHelpAttentionBlock},
    {"sa_block_q_dkv", integer, "512", "", accepted, kHelpAttentionBlock},
    {"sa_block_kv_dkv", integer, "512", "", accepted, kHelpAttentionBlock},
    {"sa_block_kv_dkv_compute", integer, "512", "", accepted, kHelpAttentionBlock},
    {"sa_block_q_dq", integer, "512", "", accepted, kHelpAttentionBlock},
    {"sa_block_kv_dq", integer, "512", "", accepted, kHelpAttentionBlock},
    {"sa_use_fused_bwd_kernel", boolean, "false", "", accepted, kHelpAttentionKernel},
    {"sa_bwd_dkv_megacore", boolean, "false", "", accepted, kHelpAttentionKernel},
    {"sa_q_layout", text, "HEAD_DIM_MINOR", "", accepted, kHelpAttentionKernel},
    {"sa_k_layout", text, "HEAD_DIM_MINOR", "", accepted, kHelpAttentionKernel},
    {"sa_v_layout", text, "HEAD_DIM_MINOR", "", accepted, kHelpAttentionKernel},
    {"sa_fuse_reciprocal", boolean, "true", "", accepted, kHelpAttentionKernel},
    {"sa_use_base2_exp", boolean, "true", "", accepted, kHelpAttentionKernel},
    {"local_sa_block_q", integer, "null", "", accepted, kHelpWindowedLayers},
    {"local_sa_block_kv", integer, "null", "", accepted, kHelpWindowedLayers},
    {"local_sa_block_kv_compute", integer, "null", "", accepted, kHelpWindowedLayers},
    {"local_sa_block_q_dkv", integer, "null", "", accepted, kHelpWindowedLayers},
    {"local_sa_block_kv_dkv", integer, "null", "", accepted, kHelpWindowedLayers},
    {"local_sa_block_kv_dkv_compute", integer, "null", "", accepted, kHelpWindowedLayers},
    {"local_sa_block_q_dq", integer, "null", "", accepted, kHelpWindowedLayers},
    {"local_sa_block_kv_dq", integer, "null", "", accepted, kHelpWindowedLayers},
    {"local_sa_use_fused_bwd_kernel", boolean, "null", "", accepted, kHelpWindowedLayers},
    {"local_sa_q_layout", text, "null", "", accepted, kHelpWindowedLayers},
    {"local_sa_k_layout", text, "null", "", accepted, kHelpWindowedLayers},
    {"local_sa_v_layout", text, "null", "", accepted, kHelpWindowedLayers},
    {"local_use_splash_scheduler", boolean, "null", "", accepted, kHelpWindowedLayers},
    {"local_sa_fuse_reciprocal", boolean, "null", "", accepted, kHelpWindowedLayers},
    {"local_sa_use_base2_exp", boolean, "null", "", accepted, kHelpWindowedLayers},
    {"use_max_logit_estimate", integer, "-1", "-1..", accepted, kHelpAttentionKernel},
    {"dq_reduction_steps", integer, "0", "0..", accepted, kHelpAttentionKernel},
    {"ring_scan_unroll", integer, "1", "0..", accepted, kHelpAttentionKernel},
    {"cost_estimate_flops_fwd", integer, "-1", "-1..", accepted, kHelpCostEstimate},
    {"cost_estimate_flops_bwd", integer, "-1", "-1..", accepted, kHelpCostEstimate},
    {"experimental_sa_quant_q_fp8", boolean, "false", "", refused, "queries in fp8"},
    {"experimental_sa_quant_k_fp8", boolean, "false", "", refused, "keys in fp8"},
    {"use_ragged_attention", boolean, "false", "", accepted, kHelpRaggedAttention},
    {"ragged_block_size", integer, "256", "", accepted, kHelpRaggedAttention},
    {"enable_padding_causal_mask", boolean, "true", "", accepted, kHelpTransformerEngine},
    {"te_comm_gemm_overlap", choice, "disabled", "disabled|mlp|full", accepted, kHelpTransformerEngine},
};

constexpr Topic kKernelsTopics[] = {
    {"Grouped products of other engines", kGmm},
    {"Attention kernels of other engines", kSplash},
};

}  // namespace

std::span<const Topic> kernels_topics() { return kKernelsTopics; }

}  // namespace moesh::config
