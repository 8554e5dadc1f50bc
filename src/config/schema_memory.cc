// Memory: what is saved for the backward pass, and what it computes again (rematerialisation).
#include "config/schema_topics.h"

namespace moesh::config {
namespace {

using enum Kind;
using enum Status;

constexpr std::string_view kHelpAbsentTensor = "remat_policy=custom: where a tensor of a layer unknown here is kept";

constexpr Key kRemat[] = {
    {"remat_gradients", boolean, "true", "", used,
     "moesh's own: few tokens on one device have gradients of weights made again for the update, not kept"},
    {"remat_policy", choice, "full",
     "|full|everything|minimal|minimal_with_context|minimal_flash|minimal_with_quantization|minimal_with_context_and_quantization|"
     "save_dot_with_context_except_mlp|save_dot_except_mlpwi|save_dot_except_mlp|save_qkv_proj|qkv_proj_offloaded|custom|"
     "minimal_offloaded|save_out_proj",
     used, "saved for the backward pass: full (or none) a layer's input, custom per tensor; moesh's own: everything, or ''"},
    {"decoder_layer_input", choice, "device", "remat|device|offload", used,
     "remat_policy=custom: where a layer's input is kept; never computed again"},
    {"context", choice, "remat", "remat|device|offload", used,
     "remat_policy=custom: where attention's result before its output projection is kept"},
    {"mlpwi", choice, "remat", "remat|device|offload", used,
     "remat_policy=custom: where the input projection of an MLP with one is kept"},
    {"mlpwi_0", choice, "remat", "remat|device|offload", used,
     "remat_policy=custom: where the MLP's first input projection is kept"},
    {"mlpwi_1", choice, "remat", "remat|device|offload", used,
     "remat_policy=custom: where the MLP's second input projection is kept"},
    {"mlpwo", choice, "remat", "remat|device|offload", used,
     "remat_policy=custom: where the MLP's output projection is kept"},
    {"moe_mlpwi_0", choice, "remat", "remat|device|offload", used,
     "remat_policy=custom: where the experts' first input projection is kept"},
    {"moe_mlpwi_1", choice, "remat", "remat|device|offload", used,
     "remat_policy=custom: where the experts' second input projection is kept"},
    {"moe_mlpwo", choice, "remat", "remat|device|offload", used,
     "remat_policy=custom: where the experts' output projection is kept"},
    {"query_proj", choice, "remat", "remat|device|offload", used,
     "remat_policy=custom: where the query projection is kept"},
    {"key_proj", choice, "remat", "remat|device|offload", used,
     "remat_policy=custom: where the key projection is kept"},
    {"value_proj", choice, "remat", "remat|device|offload", used,
     "remat_policy=custom: where the value projection is kept"},
    {"kv_proj", choice, "remat", "remat|device|offload", accepted, kHelpAbsentTensor},
    {"qkv_proj", choice, "remat", "remat|device|offload", used,
     "remat_policy=custom: where the projection of fused_qkv is kept"},
    {"out_proj", choice, "remat", "remat|device|offload", used,
     "remat_policy=custom: where attention's output projection is kept"},
    {"query_wa_proj", choice, "remat", "remat|device|offload", used,
     "remat_policy=custom: where MLA's latent query is kept"},
    {"kv_wa_proj", choice, "remat", "remat|device|offload", used,
     "remat_policy=custom: where MLA's latent key and value are kept"},
    {"mla_q", choice, "remat", "remat|device|offload", used, "remat_policy=custom: where MLA's query is kept"},
    {"mla_kv", choice, "remat", "remat|device|offload", used,
     "remat_policy=custom: where MLA's key and value are kept"},
    {"attention_out", choice, "remat", "remat|device|offload", used,
     "remat_policy=custom: where attention's result is kept, as context says too"},
    {"indexer_cutoff_threshold", choice, "remat", "remat|device|offload", used,
     "remat_policy=custom: where the keys that the indexer has chosen are kept"},
    {"engram", choice, "remat", "remat|device|offload", accepted, kHelpAbsentTensor},
};

constexpr Key kOffload[] = {
    {"optimizer_memory_host_offload", boolean, "false", "", used, "plans moments in the host's memory between updates"},
    {"parameter_memory_host_offload", boolean, "false", "", accepted,
     "keeps parameters in the host's memory between steps; within them they are on the device"},
};

constexpr Key kLossmem[] = {
    {"num_vocab_tiling", integer, "1", kCount, used,
     "parts of logits that XLA holds in turn; moesh holds none, from 2 on also where devices share the vocabulary"},
    {"vocab_tiling_ag_once", boolean, "false", "", accepted, "gathers the output projection once rather than for each part"},
};

constexpr Topic kMemoryTopics[] = {
    {.title = "Rematerialisation", .keys = kRemat, .is_of_training = true},
    {.title = "Memory of the host", .keys = kOffload, .is_of_training = true},
    {.title = "Memory of the loss", .keys = kLossmem, .is_of_training = true},
};

}  // namespace

std::span<const Topic> memory_topics() { return kMemoryTopics; }

}  // namespace moesh::config
