// Sharding: which dim lies on which mesh axis, and how layers are divided among stages.
#include "config/schema_topics.h"

namespace moesh::config {
namespace {

using enum Kind;
using enum Status;

constexpr std::string_view kHelpShardedGather =
    "gathers weights over fsdp and fsdp_transpose one after the other; moesh prices both ways";
constexpr std::string_view kHelpPipelineLoops =
    "which of the loops over stages and repeats another compiler sees as a loop";

constexpr Key kSharding[] = {
    {"custom_mesh_and_rule", text, "", "", used,
     "rule set by name or by a file's path, for mesh axes and rules; empty for the default"},
    {"mesh_axes", texts, "[]", "", used, "names of the mesh axes in order; the default ones stand in configs/base.yml"},
    {"logical_axis_rules", rules, "[]", "", used,
     "ordered list of [label, [axes]]: where a dim with that label may lie; defaults in configs/base.yml"},
    {"override_logical_axis_rules", boolean, "false", "", used,
     "replaces the list of rules, as files always do, instead of merging the command line's label by label"},
    {"data_sharding", texts, "[]", "", accepted,
     "mesh axes over which hosts load rows; where the rows lie input_data_sharding_logical_axes says"},
    {"input_data_sharding_logical_axes", texts, "[activation_embed_and_logits_batch, activation_norm_length]", "", used,
     "labels of the dims of the input tokens"},
    {"context_sharding", choice, "context", "context|expert", used,
     "mesh axis that carries the sequence; expert with rule sets such as ep-as-cp"},
    {"ulysses_context_sharding", text, "context_usp_ulysses", "", accepted,
     "mesh axis of the head exchange of context_parallel_strategy=usp"},
    {"shard_mode", choice, "auto", "auto|explicit", used,
     "auto: layouts between constraints are chosen; explicit: operands must already agree"},
    {"shard_optimizer_over_data", boolean, "false", "", used, "spreads optimizer state over the data axis too"},
    {"sharding_tolerance", real, "0.02", kFraction, used,
     "share of the parameters that may leave out a mesh axis; given, a run beyond it is refused, else warned of"},
    {"custom_mesh_and_rule_for_eval", text, "", "", accepted,
     "rule set for evaluation, which here lies as training does; results are equal"},
    {"logical_axis_rules_for_eval", rules, "[]", "", accepted,
     "rules for evaluation, which here lies as training does; results are equal"},
    {"dense_fsdp_use_two_stage_all_gather", boolean, "false", "", accepted, kHelpShardedGather},
    {"check_vma", boolean, "false", "", accepted, "check by the JAX runtime of what varies over which axes"},
};

constexpr Key kPipeline[] = {
    {"num_layers_per_pipeline_stage", integer, "1", kCount, used, "layers that a stage runs at a time"},
    {"num_pipeline_repeats", integer, "-1", kCountOrAuto, used,
     "times the layers go around the stages; -1 to derive it"},
    {"pipeline_parallel_layers", integer, "-1", kCountOrAuto, used, "layers that are spread over stages; -1 for all"},
    {"num_pipeline_microbatches", integer, "-1", kCountOrAuto, used,
     "parts of the batch that follow each other through the stages; -1 for the number of stages"},
    {"pipeline_delay_activation_forwarding", boolean, "false", "", used,
     "hands activations on one iteration later, so that sending overlaps with work"},
    {"pipeline_fsdp_ag_once", boolean, "false", "", accepted,
     "gathers weights over fsdp once, before the first iteration; results are equal"},
    {"pipeline_fsdp_ag_per_repeat", boolean, "false", "", accepted,
     "gathers weights over fsdp once a repeat, ahead of their use; results are equal"},
    {"scan_pipeline_iterations", boolean, "true", "", accepted, kHelpPipelineLoops},
    {"scan_pipeline_repeats", boolean, "false", "", accepted, kHelpPipelineLoops},
    {"scan_layers_per_stage", boolean, "false", "", used,
     "stores the parameters of a stage's layers as one stacked tensor"},
    {"set_remat_policy_on_pipeline_iterations", boolean, "true", "", accepted, kHelpPipelineLoops},
    {"set_remat_policy_on_layers_per_stage", boolean, "false", "", accepted, kHelpPipelineLoops},
};

constexpr Topic kShardingTopics[] = {
    {.title = "Sharding rules", .keys = kSharding, .is_of_texts = true},
    {"Pipeline stages", kPipeline},
};

}  // namespace

std::span<const Topic> sharding_topics() { return kShardingTopics; }

}  // namespace moesh::config
