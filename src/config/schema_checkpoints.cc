// Checkpoints: when they are written, what is kept, and what a run starts from.
#include "config/schema_topics.h"

namespace moesh::config {
namespace {

using enum Kind;
using enum Status;

constexpr std::string_view kHelpCheckpointLibrary = "setting of another engine's checkpoint library";
constexpr std::string_view kHelpSavedPathways = "one controller for a whole cloud of machines";
constexpr std::string_view kHelpCheckpointTiers = "checkpoints on several tiers of a cloud";

constexpr Key kCheckpoints[] = {
    {"enable_checkpointing", boolean, "true", "", used,
     "saves checkpoints to the run's folder, and goes on from the newest that is there"},
    {"checkpoint_period", integer, "10000", "1..1000000000", used, "steps from one checkpoint to the next"},
    {"save_checkpoint_on_start", boolean, "true", "", used, "saves the first step's too"},
    {"save_checkpoint_on_completion", boolean, "true", "", used, "saves the last step's too, also of a run that is interrupted"},
    {"async_checkpointing", boolean, "true", "", used, "saves beside the steps that follow; else they wait"},
    {"max_num_checkpoints_to_keep", integer, "null", "1..1000000000", used, "removes the oldest when there are more; null keeps all"},
    {"checkpoint_todelete_subdir", text, "null", "", used,
     "folder beside the checkpoints that the oldest are moved to rather than removed; null removes them"},
    {"load_parameters_path", text, "", "", used, 
     "checkpoint, run or Hugging Face folder whose parameters a run begins with that has no checkpoint of its own"},
    {"load_full_state_path", text, "", "", used, "the same with optimizer, step and place in the data: it goes on from there"},
};

constexpr Key kStorage[] = {
    {"force_unroll", boolean, "false", "", accepted,
     "unstacks the layers when another engine writes a checkpoint of parameters only"},
    {"enable_continuous_checkpointing", boolean, "false", "", accepted, kHelpCheckpointLibrary},
    {"enable_single_replica_ckpt_restoring", boolean, "false", "", accepted, kHelpCheckpointLibrary},
    {"checkpoint_todelete_full_path", text, "null", "", refused,
     "folder of a cloud's storage that old checkpoints are moved to; checkpoint_todelete_subdir is one of a disk"},
    {"checkpoint_storage_target_data_file_size_bytes", integer, "2147483648", "", accepted, kHelpCheckpointLibrary},
    {"checkpoint_storage_use_ocdbt", boolean, "true", "", accepted, kHelpCheckpointLibrary},
    {"checkpoint_storage_use_zarr3", boolean, "true", "", accepted, kHelpCheckpointLibrary},
    {"checkpoint_storage_concurrent_gb", integer, "96", "", accepted, kHelpCheckpointLibrary},
    {"enable_orbax_v1", boolean, "false", "", accepted, kHelpCheckpointLibrary},
    {"checkpoint_conversion_fn", text, "null", "", accepted, kHelpCheckpointLibrary},
    {"source_checkpoint_layout", choice, "orbax", "orbax|safetensors|safetensors_dynamic", accepted,
     kHelpCheckpointLibrary},
    {"convert_checkpoint_if_possible", boolean, "false", "", accepted, kHelpCheckpointLibrary},
    {"load_checkpoint_only_once", boolean, "false", "", accepted, kHelpCheckpointLibrary},
    {"colocated_python_checkpointing", boolean, "false", "", accepted, kHelpSavedPathways},
    {"enable_autocheckpoint", boolean, "false", "", accepted, "a checkpoint when a cloud takes the machine back"},
    {"enable_checkpoint_cloud_logger", boolean, "false", "", accepted, kHelpCheckpointTiers},
    {"enable_multi_tier_checkpointing", boolean, "false", "", accepted, kHelpCheckpointTiers},
    {"multi_tier_checkpointing_backup_interval_minutes", integer, "null", "1..", accepted, kHelpCheckpointTiers},
    {"multi_tier_checkpointing_backup_interval_steps", integer, "null", "1..", accepted, kHelpCheckpointTiers},
    {"mtc_data_parallelism", integer, "0", "", accepted, kHelpCheckpointTiers},
    {"enable_emergency_checkpoint", boolean, "false", "", accepted, kHelpCheckpointTiers},
    {"use_replicator_service", boolean, "false", "", accepted, kHelpCheckpointTiers},
    {"replicator_backup_interval_minutes", integer, "0", "0..", accepted, kHelpCheckpointTiers},
    {"local_checkpoint_directory", text, "", "", accepted, kHelpCheckpointTiers},
    {"local_checkpoint_period", integer, "0", "0..", accepted, kHelpCheckpointTiers},
};

constexpr Topic kCheckpointsTopics[] = {
    {.title = "Checkpoints", .keys = kCheckpoints, .scope = Scope::runs, .is_of_training = true},
    {"Checkpoint storage of other engines", kStorage, Scope::runs},
};

}  // namespace

std::span<const Topic> checkpoints_topics() { return kCheckpointsTopics; }

}  // namespace moesh::config
