// Monitoring: metrics, profiles, and the cloud services that watch a run.
#include "config/schema_topics.h"

namespace moesh::config {
namespace {

using enum Kind;
using enum Status;

constexpr std::string_view kHelpOtherProfiler = "what another profiler traces, and where to";
constexpr std::string_view kHelpTpuTrace = "what a TPU profiler records";
constexpr std::string_view kHelpCloudBucket = "copies to a cloud bucket";
constexpr std::string_view kHelpTrace = "which steps profiler traces";
constexpr std::string_view kHelpWandb = "logging to Weights & Biases";
constexpr std::string_view kHelpVertex = "logging to the Vertex AI service";
constexpr std::string_view kHelpDiagnostics = "logging to a managed diagnostics service";
constexpr std::string_view kHelpGoodput = "reports of useful time to a cloud service";
constexpr std::string_view kHelpHeartbeat = "reports of health to a cloud service";

constexpr Key kMetrics[] = {
    {"log_period", integer, "100", "1..1000000000", accepted,
     "steps between flushes of another engine's metrics; here every step's are printed and written at once"},
    {"metrics_file", text, "", "", used,
     "file to which every step's metrics are added; empty for the one in the run's folder"},
    {"enable_tensorboard", boolean, "true", "", used,
     "writes metrics for TensorBoard too, to `tensorboard` in the run's folder where it has one"},
    {"record_internal_nn_metrics", integer, "0", "", accepted,
     "records another engine's statistics of inner activations if not 0"},
    {"write_estimator_result", boolean, "false", "", accepted, "writes down what another engine's estimator finds"},
};

constexpr Key kProfiles[] = {
    {"profiler", choice, "", "|xplane|!nsys", used,
     "traces some steps beside metrics_file (ending: .trace.json), for chrome://tracing and ui.perfetto.dev"},
    {"skip_first_n_steps_for_profiler", integer, "1", "0..1000000000", used, "steps of a run before those that profiler traces"},
    {"profiler_steps", integer, "5", "0..1000000000", used, "steps that profiler traces"},
    {"profile_periodically_period", integer, "-1", "-1..1000000000", accepted, kHelpTrace},
    {"profile_cleanly", boolean, "true", "", accepted, kHelpOtherProfiler},
    {"hide_profiler_step_metric", boolean, "false", "", accepted, kHelpOtherProfiler},
    {"upload_all_profiler_results", boolean, "false", "", accepted, kHelpOtherProfiler},
    {"enable_jax_profiler", boolean, "false", "", accepted, kHelpOtherProfiler},
    {"jax_profiler_port", integer, "9999", "", accepted, kHelpOtherProfiler},
    {"enable_tpu_profiling_options", boolean, "false", "", accepted, kHelpTpuTrace},
    {"tpu_num_chips_to_profile_per_task", integer, "1", "", accepted, kHelpTpuTrace},
    {"tpu_num_sparse_core_tiles_to_trace", integer, "1", "", accepted, kHelpTpuTrace},
    {"tpu_num_sparse_cores_to_trace", integer, "2", "", accepted, kHelpTpuTrace},
    {"xprof_tpu_power_trace_level", integer, "0", "0..2", accepted, kHelpTpuTrace},
    {"xprof_e2e_enable_fw_throttle_event", boolean, "false", "", accepted, kHelpTpuTrace},
    {"xprof_e2e_enable_fw_power_level_event", boolean, "false", "", accepted, kHelpTpuTrace},
    {"xprof_e2e_enable_fw_thermal_event", boolean, "false", "", accepted, kHelpTpuTrace},
    {"profile_power_events", boolean, "false", "", accepted, kHelpTpuTrace},
};

constexpr Key kCloud[] = {
    {"gcs_metrics", boolean, "false", "", accepted, kHelpCloudBucket},
    {"save_config_to_gcs", boolean, "false", "", accepted, kHelpCloudBucket},
    {"enable_wandb", boolean, "false", "", accepted, kHelpWandb},
    {"wandb_project_name", text, "maxtext", "", accepted, kHelpWandb},
    {"wandb_run_name", text, "", "", accepted, kHelpWandb},
    {"use_vertex_tensorboard", boolean, "false", "", accepted, kHelpVertex},
    {"vertex_tensorboard_project", text, "", "", accepted, kHelpVertex},
    {"vertex_tensorboard_region", text, "", "", accepted, kHelpVertex},
    {"managed_mldiagnostics", boolean, "false", "", accepted, kHelpDiagnostics},
    {"managed_mldiagnostics_on_demand_profiling", boolean, "true", "", accepted, kHelpDiagnostics},
    {"managed_mldiagnostics_run_group", text, "", "", accepted, kHelpDiagnostics},
    {"managed_mldiagnostics_region", text, "", "", accepted, kHelpDiagnostics},
    {"managed_mldiagnostics_storage_path", text, "", "", accepted, kHelpDiagnostics},
    {"enable_goodput_recording", boolean, "false", "", accepted, kHelpGoodput},
    {"monitor_goodput", boolean, "false", "", accepted, kHelpGoodput},
    {"goodput_upload_interval_seconds", integer, "30", "", accepted, kHelpGoodput},
    {"enable_pathways_goodput", boolean, "false", "", accepted, kHelpGoodput},
    {"monitor_step_time_deviation", boolean, "true", "", accepted, kHelpGoodput},
    {"step_deviation_interval_seconds", integer, "30", "", accepted, kHelpGoodput},
    {"enable_gcp_goodput_metrics", boolean, "true", "", accepted, kHelpGoodput},
    {"enable_gcp_step_deviation_metrics", boolean, "true", "", accepted, kHelpGoodput},
    {"report_heartbeat_metric_for_gcp_monitoring", boolean, "false", "", accepted, kHelpHeartbeat},
    {"heartbeat_reporting_interval_in_seconds", integer, "5", "", accepted, kHelpHeartbeat},
    {"report_performance_metric_for_gcp_monitoring", boolean, "false", "", accepted, kHelpHeartbeat},
};

constexpr Topic kMonitoringTopics[] = {
    {.title = "Metrics", .keys = kMetrics, .scope = Scope::runs, .is_of_training = true},
    {.title = "Profiles", .keys = kProfiles, .scope = Scope::runs, .is_of_training = true},
    {"Cloud services", kCloud, Scope::runs},
};

}  // namespace

std::span<const Topic> monitoring_topics() { return kMonitoringTopics; }

}  // namespace moesh::config
