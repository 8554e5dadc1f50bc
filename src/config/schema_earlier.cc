// Keys of earlier versions of MaxText that command lines still hold; nearly all of them steer a kernel or a service.
#include "config/schema_topics.h"

namespace moesh::config {
namespace {

using enum Kind;
using enum Status;

constexpr std::string_view kHelpEarlierTile = "tile size of an earlier TPU grouped-matmul kernel";
constexpr std::string_view kHelpMatmulBuffers = "buffers of an earlier TPU grouped-matmul kernel";
constexpr std::string_view kHelpMatmulScopes = "memory scopes of an earlier TPU grouped-matmul kernel";
constexpr std::string_view kHelpPages = "pages of an earlier attention kernel for serving";
constexpr std::string_view kHelpEarlierLayout = "layout in memory of the cache of keys and values; results are equal";
constexpr std::string_view kHelpStackTrace = "collection of stack traces by a cloud service";
constexpr std::string_view kHelpPrefixBenchmark = "setting of another engine's benchmark of a cache of prompts";
constexpr std::string_view kHelpTransposedTensor = "devices along an axis that MaxText no longer has; only 1 here";

constexpr Key kEarlierKernels[] = {
    {"tile_batch_seq", integer, "512", "", accepted, kHelpEarlierTile},
    {"tile_embed_dim", integer, "1024", "", accepted, kHelpEarlierTile},
    {"tile_mlp_dim", integer, "1024", "", accepted, kHelpEarlierTile},
    {"tile_activation_dim", integer, "1024", "", accepted, kHelpEarlierTile},
    {"tile_weight_dim", integer, "1024", "", accepted, kHelpEarlierTile},
    {"tile_fwd_batch_seq", integer, "512", "", accepted, kHelpEarlierTile},
    {"tile_fwd_embed_dim", integer, "1024", "", accepted, kHelpEarlierTile},
    {"tile_fwd_mlp_dim", integer, "1024", "", accepted, kHelpEarlierTile},
    {"tile_dlhs_fwd_batch_seq", integer, "512", "", accepted, kHelpEarlierTile},
    {"tile_dlhs_fwd_embed_dim", integer, "1024", "", accepted, kHelpEarlierTile},
    {"tile_dlhs_fwd_mlp_dim", integer, "1024", "", accepted, kHelpEarlierTile},
    {"tile_drhs_fwd_batch_seq", integer, "512", "", accepted, kHelpEarlierTile},
    {"tile_drhs_fwd_embed_dim", integer, "1024", "", accepted, kHelpEarlierTile},
    {"tile_drhs_fwd_mlp_dim", integer, "1024", "", accepted, kHelpEarlierTile},
    {"wi_tile_fwd_buffer_count", integer, "2", "", accepted, kHelpMatmulBuffers},
    {"wi_tile_dlhs_buffer_count", integer, "2", "", accepted, kHelpMatmulBuffers},
    {"wi_tile_drhs_buffer_count", integer, "2", "", accepted, kHelpMatmulBuffers},
    {"wo_tile_fwd_buffer_count", integer, "2", "", accepted, kHelpMatmulBuffers},
    {"wo_tile_dlhs_buffer_count", integer, "2", "", accepted, kHelpMatmulBuffers},
    {"wo_tile_drhs_buffer_count", integer, "2", "", accepted, kHelpMatmulBuffers},
    {"wi_combine_scopes", boolean, "false", "", accepted, kHelpMatmulScopes},
    {"wo_combine_scopes", boolean, "false", "", accepted, kHelpMatmulScopes},
    {"use_sliced_mla_projections", boolean, "false", "", accepted, "the name that use_sliced_mla_proj had"},
    {"use_te_comm_gemm_overlap", boolean, "false", "", accepted, "the name that te_comm_gemm_overlap had"},
    {"pagedattn_num_pages", integer, "64", "", accepted, kHelpPages},
    {"pagedattn_tokens_per_page", integer, "32", "", accepted, kHelpPages},
    {"pagedattn_pages_per_compute_block", integer, "4", "", accepted, kHelpPages},
    {"pagedattn_max_pages_per_group", integer, "-1", "", accepted, kHelpPages},
    {"pagedattn_head_dim_alignment", integer, "128", "", accepted, kHelpPages},
    {"prefill_key_axis_order", text, "1,2,0,3", "", accepted, kHelpEarlierLayout},
    {"prefill_value_axis_order", text, "1,2,0,3", "", accepted, kHelpEarlierLayout},
    {"ar_key_axis_order", text, "1,2,0,3", "", accepted, kHelpEarlierLayout},
    {"ar_value_axis_order", text, "1,2,0,3", "", accepted, kHelpEarlierLayout},
};

constexpr Key kEarlier[] = {
    {"moe_mlpwi", choice, "remat", "remat|device|offload", accepted, "what moe_mlpwi_0 and moe_mlpwi_1 were together; results are equal"},
    {"model_fsdp_ag_once", boolean, "false", "", accepted, "gathers weights once for all microbatches; results are equal"},
    {"use_pipeline_weight_prefetching", boolean, "false", "", accepted, "gathers a stage's weights ahead of their use; results are equal"},
    {"quantization_calibration_method", text, "absmax", "", accepted, "setting of quantization, which moesh does not do"},
    {"collect_stack_trace", boolean, "false", "", accepted, kHelpStackTrace},
    {"stack_trace_to_cloud", boolean, "false", "", accepted, kHelpStackTrace},
    {"stack_trace_interval_seconds", integer, "600", "", accepted, kHelpStackTrace},
    {"enable_checkpoint_standard_logger", boolean, "false", "", accepted, "log of another engine's checkpoint library"},
    {"disalbe_key_validation", boolean, "false", "", accepted, "leaves unknown keys unchecked in another engine"},
    {"inference_microbenchmark_prefix_cache_entries_num", integer, "100", "", accepted, kHelpPrefixBenchmark},
    {"inference_microbenchmark_prefix_cache_common_prefix_proportion", real, "0.5", "", accepted, kHelpPrefixBenchmark},
    {"use_sparse_indexer", boolean, "false", "", used, "the name that use_indexer had"},
    {"sparse_indexer_loss", boolean, "false", "", refused, "an earlier way to say indexer_loss_scaling_factor"},
    {"index_n_heads", integer, "64", kCount, used, "the name that indexer_n_heads had"},
    {"index_head_dim", integer, "128", kSize, used, "the name that indexer_head_dim had"},
    {"index_topk", integer, "2048", kCount, used, "the name that indexer_topk had"},
    {"output_dir", text, "", "", accepted, "of a launcher; base_output_directory says where a run writes"},
    {"fsdp_shard_on_exp", boolean, "false", "", used, "the name that shard_exp_on_fsdp had"},
    {"ici_tensor_transpose_parallelism", integer, "1", kAxisSize, refused, kHelpTransposedTensor},
    {"dcn_tensor_transpose_parallelism", integer, "1", kAxisSize, refused, kHelpTransposedTensor},
};

constexpr Topic kEarlierTopics[] = {
    {"Kernels of earlier versions", kEarlierKernels},
    {"Other keys of earlier versions", kEarlier},
};

}  // namespace

std::span<const Topic> earlier_topics() { return kEarlierTopics; }

}  // namespace moesh::config
