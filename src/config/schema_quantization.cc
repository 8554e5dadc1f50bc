// Quantization, which is planned and not run yet, and sparsity, which moesh does not do.
#include "config/schema_topics.h"

namespace moesh::config {
namespace {

using enum Kind;
using enum Status;

constexpr std::string_view kHelpQuantization = "how values would be quantized";
constexpr std::string_view kHelpSparsity = "when sparse weights would be chosen";

constexpr Key kQuantization[] = {
    {"quantization", choice, "",
     "|int8|fp8|fp8_full|fp8_gpu|nanoo_fp8|te_fp8_delayedscaling|te_fp8_currentscaling|te_mxfp8|!int4|!intmp|!te_nvfp4|"
     "!te_nvfp4_no_rht",
     used,
     "products with weights in low precision: planned at the chip's rate, not run yet"},
    {"quantize_kvcache", boolean, "false", "", refused, "low-precision cache of keys and values"},
    {"checkpoint_is_quantized", boolean, "false", "", refused, "reads a checkpoint in low precision"},
    {"save_quantized_params_path", text, "", "", refused, "writes parameters in low precision to this path"},
    {"constant_bound_config", text, "", "", accepted, kHelpQuantization},
    {"replicate_quant_scale", boolean, "false", "", accepted, kHelpQuantization},
    {"quant_cfg_path", text, "", "", accepted, kHelpQuantization},
    {"kv_quant_axis", choice, "heads_and_dkv", "|dkv|heads_and_dkv", accepted, kHelpQuantization},
    {"kv_quant_dtype", choice, "int8", "int8|int4", accepted, kHelpQuantization},
    {"use_qwix_quantization", boolean, "false", "", accepted, kHelpQuantization},
    {"use_manual_quantization", boolean, "false", "", accepted, kHelpQuantization},
    {"weight_quantization_calibration_method", text, "absmax", "", accepted, kHelpQuantization},
    {"act_quantization_calibration_method", text, "absmax", "", accepted, kHelpQuantization},
    {"bwd_quantization_calibration_method", text, "absmax", "", accepted, kHelpQuantization},
    {"quantization_local_shard_count", integer, "-1", "", accepted, kHelpQuantization},
};

constexpr Key kSparsity[] = {
    {"weight_sparsity_n", integer, "null", "1..1000000", refused,
     "weights kept out of each block of weight_sparsity_m; null for all"},
    {"weight_sparsity_m", integer, "null", "1..1000000", refused,
     "weights in a block of sparse weights; null for none"},
    {"weight_sparsity_update_step", integer, "10", "", accepted, kHelpSparsity},
    {"weight_sparsity_start_step", integer, "50", "", accepted, kHelpSparsity},
};

constexpr Topic kQuantizationTopics[] = {
    {"Quantization", kQuantization},
    {"Sparsity", kSparsity},
};

}  // namespace

std::span<const Topic> quantization_topics() { return kQuantizationTopics; }

}  // namespace moesh::config
