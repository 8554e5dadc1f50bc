// Decoding: prompts, sampling, and the keys of other engines' servers.
#include "config/schema_topics.h"

namespace moesh::config {
namespace {

using enum Kind;
using enum Status;

constexpr std::string_view kHelpServer = "setting of a server of another engine";
constexpr std::string_view kHelpCacheLayout = "layout in memory of the cache of keys and values; results are equal";
constexpr std::string_view kHelpDecodeBenchmark = "setting of another engine's benchmark of decoding";
constexpr std::string_view kHelpVllm = "setting of vLLM";

constexpr Key kDecode[] = {
    {"prompt", text, "I love to", "", used, "what decode goes on with where no prompt is given otherwise"},
    {"max_prefill_predict_length", integer, "64", kSize, used,
     "tokens of a prompt in `compile --prefill` and `bench prefill`; in `decode` a prompt has its own length"},
    {"decode_sampling_strategy", choice, "greedy", "greedy|weighted|nucleus|topk|composite", used,
     "greedy: the likeliest token; weighted: by probability; topk, nucleus: among the likeliest; composite: both"},
    {"decode_sampling_temperature", real, "1.0", "0..1000000", used,
     "scores are divided by it before a token is drawn; 0 for the likeliest"},
    {"decode_sampling_top_k", integer, "0", "0..1000000000", used, "topk, composite: tokens that are drawn from"},
    {"decode_sampling_nucleus_p", real, "-1", "-1..1", used,
     "nucleus, composite: share of the probability of the tokens that are drawn from"},
    {"decode_sampling_min_p", real, "0", "0..1", used, "moesh's own: tokens less likely than this share of the likeliest are not drawn"},
    {"decode_sampling_repetition_penalty", real, "1.0", "0.000001..1000000", used,
     "moesh's own: divides the scores of tokens that were there, multiplies those below 0"},
    {"decode_sampling_seed", integer, "0", "0..4294967295", used, "moesh's own: other texts for another seed, the same for the same"},
    {"autoregressive_decode_assert", text, "", "", used,
     "what a text that decode makes has to begin with; if it does not, the exit code is 1"},
    {"multi_sampling", boolean, "false", "", refused, "several continuations of one prompt"},
    {"return_log_prob", boolean, "false", "", refused, "log probabilities of the drawn tokens"},
    {"load_from_prefill_dir", boolean, "false", "", refused, "reads the prompt's cache from prefill_cache_dir"},
    {"prefill_cache_dir", text, "", "", refused, "folder for the cache of a prompt"},
    {"model_call_mode", text, "", "", accepted, "mode in which another engine calls the model; `moesh compile --decode` plans decoding"},
    {"use_chunked_prefill", boolean, "false", "", accepted, "takes a long prompt in parts; results are equal"},
    {"prefill_chunk_size", integer, "256", "", accepted, "tokens in one part of use_chunked_prefill"},
    {"enable_prefix_caching", boolean, "false", "", accepted, kHelpServer},
    {"prefix_caching_hbm_byte", integer, "10000000000", "", accepted, kHelpServer},
    {"prefix_caching_dram_byte", integer, "100000000000", "", accepted, kHelpServer},
    {"stack_prefill_result_cache", boolean, "false", "", accepted, kHelpCacheLayout},
    {"prefill_cache_axis_order", text, "1,2,0,3", "", accepted, kHelpCacheLayout},
    {"ar_cache_axis_order", text, "1,2,0,3", "", accepted, kHelpCacheLayout},
    {"compute_axis_order", text, "0,1,2,3", "", accepted, kHelpCacheLayout},
    {"reshape_q", boolean, "false", "", accepted, kHelpCacheLayout},
};

constexpr Key kServing[] = {
    {"inference_server", text, "MaxtextInterleavedServer", "", accepted, kHelpServer},
    {"prefill_slice", text, "v5e-16", "", accepted, kHelpServer},
    {"generate_slice", text, "v5e-16", "", accepted, kHelpServer},
    {"enable_model_warmup", boolean, "false", "", accepted, kHelpServer},
    {"enable_llm_inference_pool", boolean, "false", "", accepted, kHelpServer},
    {"prometheus_port", integer, "0", "", accepted, kHelpServer},
    {"inference_microbenchmark_prefill_lengths", text, "64,128,256,512,1024", "", accepted, kHelpDecodeBenchmark},
    {"inference_microbenchmark_stages", text, "prefill,generate", "", accepted, kHelpDecodeBenchmark},
    {"inference_microbenchmark_loop_iters", integer, "10", "", accepted, kHelpDecodeBenchmark},
    {"inference_microbenchmark_log_file_path", text, "", "", accepted, kHelpDecodeBenchmark},
    {"inference_microbenchmark_num_samples", integers, "[1, 2, 3, 4, 5]", "", accepted, kHelpDecodeBenchmark},
    {"inference_metadata_file", text, "", "", accepted, kHelpDecodeBenchmark},
    {"inference_benchmark_test", boolean, "false", "", accepted, kHelpDecodeBenchmark},
    {"vllm_hf_config_path", text, "", "", accepted, kHelpVllm},
    {"vllm_hf_overrides", nested, "{}", "", accepted, kHelpVllm},
    {"vllm_additional_config", nested, "{}", "", accepted, kHelpVllm},
    {"vllm_load_format", text, "dummy", "", accepted, kHelpVllm},
    {"kv_cache_buffer", integer, "256", "", accepted, kHelpVllm},
    {"hbm_utilization_vllm", real, "0.72", "", accepted, kHelpVllm},
    {"swap_space_vllm_gb", integer, "2", "", accepted, kHelpVllm},
    {"enable_dp_attention", boolean, "false", "", accepted, kHelpVllm},
    {"enable_expert_parallel", boolean, "false", "", accepted, kHelpVllm},
    {"async_scheduling", boolean, "false", "", accepted, kHelpVllm},
    {"max_num_batched_tokens", integer, "null", "", accepted, kHelpVllm},
    {"max_num_seqs", integer, "null", "", accepted, kHelpVllm},
    {"stop_strings", texts, "null", "", accepted, kHelpVllm},
    {"use_standalone_converter", boolean, "false", "", accepted, kHelpVllm},
    {"use_weight_converter", boolean, "false", "", accepted, kHelpVllm},
    {"weight_sync_debug", boolean, "false", "", accepted, kHelpVllm},
    {"log_weight_sync_time", boolean, "false", "", accepted, kHelpVllm},
    {"debug_converter", boolean, "false", "", accepted, kHelpVllm},
    {"gcs_debug_path", text, "", "", accepted, kHelpVllm},
};

constexpr Topic kDecodeTopics[] = {
    {.title = "Decoding", .keys = kDecode, .scope = Scope::runs, .is_of_texts = true},
    {"Servers of other engines", kServing, Scope::runs},
};

}  // namespace

std::span<const Topic> decode_topics() { return kDecodeTopics; }

}  // namespace moesh::config
