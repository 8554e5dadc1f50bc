// Mesh: how many devices lie along each axis, within a slice and between slices.
#include "config/schema_topics.h"

namespace moesh::config {
namespace {

using enum Kind;
using enum Status;

constexpr std::string_view kHelpPlacement = "how mesh axes are laid onto the wires of a TPU slice";
constexpr std::string_view kHelpSlowNetwork = "slows the network between slices down, to simulate a worse one";

constexpr Key kIci[] = {
    {"ici_diloco_parallelism", integer, "1", kAxisSize, refused,
     "replicas that train apart within a slice; only 1 here"},
    {"ici_data_parallelism", integer, "1", kAxisSize, used,
     "devices along the data axis within a slice; -1 for what is left"},
    {"ici_fsdp_parallelism", integer, "-1", kAxisSize, used,
     "devices along the fsdp axis within a slice; -1 for what is left"},
    {"ici_fsdp_transpose_parallelism", integer, "1", kAxisSize, used,
     "devices along the fsdp_transpose axis within a slice; -1 for what is left"},
    {"ici_sequence_parallelism", integer, "1", kAxisSize, used,
     "devices along the sequence axis within a slice; -1 for what is left"},
    {"ici_context_parallelism", integer, "1", kAxisSize, used,
     "devices along the context axis within a slice; -1 for what is left"},
    {"ici_context_usp_ulysses_parallelism", integer, "1", kAxisSize, refused,
     "devices along the axis of context_parallel_strategy=usp within a slice; only 1 here"},
    {"ici_context_autoregressive_parallelism", integer, "1", kAxisSize, used,
     "devices along the context_autoregressive axis within a slice; -1 for what is left"},
    {"ici_tensor_parallelism", integer, "1", kAxisSize, used,
     "devices along the tensor axis within a slice; -1 for what is left"},
    {"ici_tensor_sequence_parallelism", integer, "1", kAxisSize, used,
     "devices along the tensor_sequence axis within a slice; -1 for what is left"},
    {"ici_autoregressive_parallelism", integer, "1", kAxisSize, used,
     "devices along the autoregressive axis within a slice; -1 for what is left"},
    {"ici_pipeline_parallelism", integer, "1", kAxisSize, used,
     "devices along the stage axis within a slice; -1 for what is left"},
    {"ici_expert_parallelism", integer, "1", kAxisSize, used,
     "devices along the expert axis within a slice; -1 for what is left"},
};

constexpr Key kDcn[] = {
    {"dcn_diloco_parallelism", integer, "1", kAxisSize, refused,
     "replicas that train apart between slices; only 1 here"},
    {"dcn_data_parallelism", integer, "-1", kAxisSize, used,
     "devices along the data axis between slices; -1 for what is left"},
    {"dcn_fsdp_parallelism", integer, "1", kAxisSize, used,
     "devices along the fsdp axis between slices (compile_topology_num_slices); -1 for what is left"},
    {"dcn_fsdp_transpose_parallelism", integer, "1", kAxisSize, used,
     "devices along the fsdp_transpose axis between slices; -1 for what is left"},
    {"dcn_sequence_parallelism", integer, "1", kAxisSize, used,
     "devices along the sequence axis between slices; -1 for what is left"},
    {"dcn_context_parallelism", integer, "1", kAxisSize, used,
     "devices along the context axis between slices; -1 for what is left"},
    {"dcn_context_usp_ulysses_parallelism", integer, "1", kAxisSize, refused,
     "devices along the axis of context_parallel_strategy=usp between slices; only 1 here"},
    {"dcn_context_autoregressive_parallelism", integer, "1", kAxisSize, used,
     "devices along the context_autoregressive axis between slices; -1 for what is left"},
    {"dcn_tensor_parallelism", integer, "1", kAxisSize, used,
     "devices along the tensor axis between slices; -1 for what is left"},
    {"dcn_tensor_sequence_parallelism", integer, "1", kAxisSize, used,
     "devices along the tensor_sequence axis between slices; -1 for what is left"},
    {"dcn_pipeline_parallelism", integer, "1", kAxisSize, used,
     "devices along the stage axis between slices; -1 for what is left"},
    {"dcn_expert_parallelism", integer, "1", kAxisSize, used,
     "devices along the expert axis between slices; -1 for what is left"},
    {"dcn_autoregressive_parallelism", integer, "1", kAxisSize, used,
     "devices along the autoregressive axis between slices; -1 for what is left"},
};

constexpr Key kPhysical[] = {
    {"num_slices", integer, "-1", kAxisSize, used, "slices that the devices form; -1 to find out"},
    {"custom_mesh", text, "", "", accepted, kHelpPlacement},
    {"allow_split_physical_axes", boolean, "false", "", accepted, kHelpPlacement},
    {"optimize_mesh_for_tpu_v6e", boolean, "false", "", accepted, kHelpPlacement},
    {"dcn_bandwidth_limit", text, "", "", accepted, kHelpSlowNetwork},
    {"dcn_bandwidth_burst", text, "10mb", "", accepted, kHelpSlowNetwork},
    {"dcn_bandwidth_latency", text, "50ms", "", accepted, kHelpSlowNetwork},
    {"dcn_bandwidth_interface", text, "eth0", "", accepted, kHelpSlowNetwork},
};

constexpr Topic kMeshTopics[] = {
    {"Axes within a slice", kIci},
    {"Axes between slices", kDcn},
    {"Placement on hardware", kPhysical},
};

}  // namespace

std::span<const Topic> mesh_topics() { return kMeshTopics; }

}  // namespace moesh::config
