// Parts of architectures that moesh does not build.
#include "config/schema_topics.h"

namespace moesh::config {
namespace {

using enum Kind;
using enum Status;

constexpr std::string_view kHelpMoba = "setting of moba";
constexpr std::string_view kHelpHyperConnections = "setting of mhc_expansion_rate";
constexpr std::string_view kHelpEngram = "setting of engram_layers";
constexpr std::string_view kHelpOtherDiffusion = "setting of block diffusion, which moesh does not do";

constexpr Key kSparseAttention[] = {
    {"moba", boolean, "false", "", refused, "attention to the best blocks of keys only"},
    {"moba_chunk_size", integer, "1024", "", accepted, kHelpMoba},
    {"moba_topk", integer, "8", "", accepted, kHelpMoba},
    {"o_lora_rank", integer, "0", kSizeOrZero, used, "deepseek4: width of the vector that a group of heads goes out through"},
    {"o_groups", integer, "0", kCountOrZero, used, "deepseek4: groups of heads that go out through a vector each"},
    {"compress_ratios", integers, "[]", "", used,
     "deepseek4: for each layer how many tokens make one key, 4 or more; 0 for a layer with single tokens alone"},
    {"compressed_rope_max_timescale", integer, "160000", kCount, used,
     "deepseek4: longest wavelength of positions in layers with keys of several tokens"},
};

constexpr Key kResidual[] = {
    {"mhc_expansion_rate", integer, "1", "1..64", used,
     "deepseek, deepseek4: streams of the residual, read and mixed by learned weights (hyper-connections)"},
    {"sinkhorn_iterations", integer, "20", "1..1000", used, "how often rows and columns of what mixes streams are divided by their sums"},
    {"enable_mhc_lite", boolean, "false", "", used, "mixes streams by a mean of permutations, without sinkhorn_iterations"},
    {"use_mhc_pallas_kernel", boolean, "false", "", accepted, kHelpHyperConnections},
    {"mhc_pallas_kernel_fwd_block_size", integer, "256", "", accepted, kHelpHyperConnections},
    {"mhc_pallas_kernel_bwd_block_size", integer, "128", "", accepted, kHelpHyperConnections},
    {"engram_layers", integers, "[]", "", refused, "layers with a memory looked up by n-grams; only [] here"},
    {"engram_max_ngram_size", integer, "3", "", accepted, kHelpEngram},
    {"engram_num_heads", integer, "8", "", accepted, kHelpEngram},
    {"engram_head_dim", integer, "1280", "", accepted, kHelpEngram},
    {"engram_vocab_bases", integers, "[]", "", accepted, kHelpEngram},
    {"engram_kernel_size", integer, "4", "", accepted, kHelpEngram},
    {"engram_seed", integer, "0", "", accepted, kHelpEngram},
    {"hidden_size_per_layer_input", integer, "0", kSizeOrZero, refused,
     "width of an embedding that each layer adds; only 0 here"},
    {"vocab_size_per_layer_input", integer, "0", "0..", accepted, "rows of the table of hidden_size_per_layer_input"},
    {"num_kv_shared_layers", integer, "0", kCountOrZero, refused,
     "layers at the end that reuse an earlier layer's keys and values; only 0 here"},
    {"use_double_wide_mlp", boolean, "false", "", refused,
     "twice the MLP's width in layers that reuse keys and values"},
};

constexpr Key kDiffusion[] = {
    {"block_diffusion_mask_id", integer, "-1", "", accepted, kHelpOtherDiffusion},
    {"block_diffusion_min_noise", real, "0.001", "", accepted, kHelpOtherDiffusion},
    {"block_diffusion_logit_alignment", choice, "same_position", "same_position|shifted", accepted,
     kHelpOtherDiffusion},
    {"block_diffusion_canvas_policy", choice, "all_masked", "all_masked|seed_and_mask", accepted, kHelpOtherDiffusion},
};

constexpr Topic kOtherModelsTopics[] = {
    {.title = "Sparse and compressed attention", .keys = kSparseAttention, .is_of_models = true},
    {.title = "Other residual streams and embeddings", .keys = kResidual, .is_of_models = true},
    {"Block diffusion", kDiffusion},
};

}  // namespace

std::span<const Topic> other_models_topics() { return kOtherModelsTopics; }

}  // namespace moesh::config
