// Run: what is run, under which name, and where its results go.
#include "config/schema_topics.h"

namespace moesh::config {
namespace {

using enum Kind;
using enum Status;

constexpr std::string_view kHelpTopology = "topology of another compiler; use compile_topology";
constexpr std::string_view kHelpCompilerFlags = "flags of another engine's compiler";
constexpr std::string_view kHelpJaxStart = "start of the JAX runtime";
constexpr std::string_view kHelpRunPathways = "one controller for a whole cloud of machines";
constexpr std::string_view kHelpModelClasses = "which of another engine's model classes are used";
constexpr std::string_view kHelpProgramDump = "dumps of another compiler's programs";
constexpr std::string_view kHelpTracedProgramDump = "dumps of the programs that JAX traces";

constexpr Key kRun[] = {
    {"run_name", text, "", "", used,
     "name of the run: its folder under base_output_directory; empty for a name made from the date"},
    {"base_output_directory", text, "", "", used, "folder under which runs are written; empty for moesh_output"},
    {"base_config", text, "null", "", used, "file that a file of settings, a model or rules inherits from; read in files only"},
    {"model_name", text, "default", "", used,
     "preset of a known model, or path of a YAML file or a Hugging Face folder; default for none", OnTexts::kept},
    {"override_model_config", boolean, "false", "", used,
     "lets the environment and the command line override what the preset of model_name sets", OnTexts::kept},
    {"log_config", boolean, "true", "", used,
     "train: prints the keys that a file, the environment or the command line gives, at the start"},
    {"debug_sharding", boolean, "false", "", accepted,
     "prints where every parameter lies at the start; `moesh shardings` does that"},
    {"compile_topology", text, "", "", used,
     "hardware to plan for, by its name in the catalogue, e.g. v6e-8; empty for this machine"},
    {"plan", text, "", "", used,
     "train: file with a saved plan; what would run differently is refused, with the first difference"},
    {"compile_topology_num_slices", integer, "-1", kAxisSize, used,
     "slices of compile_topology to plan for; -1 for one"},
    {"backend", choice, "cpu", "cpu|reference", used,
     "moesh's own: who runs the kernels: cpu, or reference, which runs every op in its plainest form, slowly", OnTexts::kept},
    {"collective_timeout", real, "600", "1..1000000", used,
     "moesh's own: seconds after which a process that does not answer the others is given up, and the run ended"},
    {"owners", integer, "1", kCount, used,
     "moesh's own: keeps the devices' memory apart in so many parts, as processes would, to try how a layout travels"},
};

constexpr Key kRuntime[] = {
    {"compiled_trainstep_file", text, "", "", accepted, "file with a training step compiled by another engine"},
    {"hardware", choice, "tpu", "tpu|gpu|gpu_multiprocess|cpu", accepted,
     "kind of hardware another engine should expect; moesh looks for itself"},
    {"internal_compile", boolean, "false", "", accepted, kHelpTopology},
    {"internal_compile_num_devices", integer, "-1", "", accepted, kHelpTopology},
    {"compile_xla_flags", text, "", "", accepted, kHelpCompilerFlags},
    {"jax_cache_dir", text, "~/jax_cache", "", accepted, "folder for compiled programs of the JAX runtime"},
    {"jax_distributed_initialization_timeout", integer, "300", "", accepted, kHelpJaxStart},
    {"jax_debug_log_modules", text, "", "", accepted, kHelpJaxStart},
    {"skip_jax_distributed_system", boolean, "false", "", accepted, kHelpJaxStart},
    {"enable_single_controller", boolean, "false", "", accepted, kHelpRunPathways},
    {"subslice_shape", text, "", "", accepted, kHelpRunPathways},
    {"enable_nnx", boolean, "true", "", accepted, kHelpModelClasses},
    {"pure_nnx_decoder", boolean, "true", "", accepted, kHelpModelClasses},
    {"pure_nnx", boolean, "true", "", accepted, kHelpModelClasses},
    {"shardy", boolean, "true", "", accepted, "chooses the XLA partitioner; moesh has its own"},
    {"remove_size_one_mesh_axis_from_type", boolean, "true", "", accepted,
     "drops axes of size 1 from the types that JAX infers"},
    {"max_checkify", boolean, "false", "", accepted, "extra run-time checks of the JAX runtime"},
    {"max_inflight_computations", integer, "2", "", accepted, "steps that the JAX runtime may queue ahead"},
    {"sharding_strategy", text, "null", "", accepted,
     "an experimental layout for serving, which MaxText heeds no more; rules say how tensors lie"},
    {"dump_hlo", boolean, "false", "", accepted, kHelpProgramDump},
    {"dump_step", integer, "-1", "", accepted, kHelpProgramDump},
    {"dump_hlo_local_dir", text, "/tmp/xla_dump/", "", accepted, kHelpProgramDump},
    {"dump_hlo_delete_local_after", boolean, "true", "", accepted, kHelpProgramDump},
    {"dump_hlo_gcs_dir", text, "", "", accepted, kHelpProgramDump},
    {"dump_hlo_local_module_name", text, "jit_train_step", "", accepted, kHelpProgramDump},
    {"dump_hlo_module_name", text, "jit_train_step", "", accepted, kHelpProgramDump},
    {"dump_hlo_xla_flags", text, "", "", accepted, kHelpProgramDump},
    {"dump_hlo_upload_all", boolean, "false", "", accepted, kHelpProgramDump},
    {"dump_jaxpr", boolean, "false", "", accepted, kHelpTracedProgramDump},
    {"dump_jaxpr_local_dir", text, "/tmp/jaxpr_dump/", "", accepted, kHelpTracedProgramDump},
    {"dump_jaxpr_delete_local_after", boolean, "true", "", accepted, kHelpTracedProgramDump},
    {"dump_jaxpr_gcs_dir", text, "", "", accepted, kHelpTracedProgramDump},
};

constexpr Topic kRunTopics[] = {
    {"Run and paths", kRun},
    {"Runtimes of other engines", kRuntime},
};

}  // namespace

std::span<const Topic> run_topics() { return kRunTopics; }

}  // namespace moesh::config
