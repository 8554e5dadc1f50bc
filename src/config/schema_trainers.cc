// Other trainers: fine-tuning, preference learning, distillation, loose coupling, elasticity.
#include "config/schema_topics.h"

namespace moesh::config {
namespace {

using enum Kind;
using enum Status;

constexpr std::string_view kHelpSft = "setting of use_sft";
constexpr std::string_view kHelpDistill = "distillation from a teacher model";
constexpr std::string_view kHelpDiloco = "setting of enable_diloco";
constexpr std::string_view kHelpElastic = "setting of elastic_enabled";

constexpr Key kFinetuning[] = {
    {"use_sft", boolean, "false", "", planned_without, "supervised fine-tuning on prompts and answers"},
    {"use_dpo", boolean, "false", "", planned_without, "preference optimization on pairs of answers"},
    {"use_grpo", boolean, "false", "", planned_without, "reinforcement learning on groups of answers"},
    {"dpo", nested, "{}", "", accepted, "settings of use_dpo"},
    {"lora", nested, "{}", "", refused, "low-rank adapters: a mapping whose enable_lora is true"},
    {"lora_input_adapters_path", text, "", "", refused, "folder of low-rank adapters to load"},
    {"hf_lora_adapter_path", text, "", "", refused, "Hugging Face name or folder of a low-rank adapter to load"},
    {"sft_train_on_completion_only", boolean, "false", "", accepted, kHelpSft},
    {"formatting_func_path", text, "", "", accepted, kHelpSft},
    {"formatting_func_kwargs", nested, "{}", "", accepted, kHelpSft},
};

constexpr Key kDistillation[] = {
    {"student_overrides", nested, "{}", "", refused, kHelpDistill},
    {"teacher_overrides", nested, "{}", "", refused, kHelpDistill},
    {"offline_data_dir", text, "null", "", refused, kHelpDistill},
    {"distill_alpha", real, "0.5", "", refused, kHelpDistill},
    {"distill_temperature", real, "1.0", "", refused, kHelpDistill},
    {"distill_beta", real, "0.0", "", refused, kHelpDistill},
    {"distill_feature_loss_type", choice, "cosine", "cosine|l2", refused, kHelpDistill},
    {"distill_layer_indices", integers, "null", "", refused, kHelpDistill},
    {"distill_alpha_end", real, "null", "", refused, kHelpDistill},
    {"distill_alpha_schedule", choice, "constant", "constant|linear|cosine", refused, kHelpDistill},
    {"distill_temperature_end", real, "null", "", refused, kHelpDistill},
    {"distill_temperature_schedule", choice, "constant", "constant|linear|cosine", refused, kHelpDistill},
    {"distill_beta_end", real, "null", "", refused, kHelpDistill},
    {"distill_beta_schedule", choice, "constant", "constant|linear|cosine", refused, kHelpDistill},
    {"learn_to_init_mode", boolean, "false", "", refused, kHelpDistill},
    {"lti_use_general_linear_map", boolean, "false", "", refused, kHelpDistill},
    {"distill_weights_copy_map", nested, "{}", "", refused, kHelpDistill},
    {"distill_student_weights_share_map", nested, "{}", "", refused, kHelpDistill},
    {"attn_module_name", text, "null", "", refused, kHelpDistill},
    {"lti_layer_indices", integers, "null", "", refused, kHelpDistill},
    {"student_params_to_update", texts, "null", "", refused, kHelpDistill},
};

constexpr Key kDiloco[] = {
    {"enable_diloco", boolean, "false", "", refused, "replicas that train apart and meet every so many steps"},
    {"enable_streaming_diloco", boolean, "false", "", refused,
     "loosely coupled replicas that meet a fragment of the model at a time"},
    {"diloco_sync_period", integer, "36", "", accepted, kHelpDiloco},
    {"diloco_outer_lr", real, "0.3", "", accepted, kHelpDiloco},
    {"diloco_outer_momentum", real, "0.9", "", accepted, kHelpDiloco},
    {"num_diloco_fragments", integer, "null", "", accepted, kHelpDiloco},
    {"use_sequential_layers", boolean, "false", "", accepted, kHelpDiloco},
    {"num_communication_overlapping_steps", integer, "0", "0..", accepted, kHelpDiloco},
    {"communication_overlapping_alpha", real, "0.0", kFraction, accepted, kHelpDiloco},
};

constexpr Key kElastic[] = {
    {"elastic_enabled", boolean, "false", "", planned_without, "training that goes on when slices come and go"},
    {"elastic_backup_kind", text, "snapshot", "", accepted, kHelpElastic},
    {"elastic_timeout_seconds", integer, "300", "", accepted, kHelpElastic},
    {"elastic_max_retries", integer, "10", "", accepted, kHelpElastic},
    {"elastic_min_slice_count", integer, "-1", "", accepted, kHelpElastic},
};

constexpr Topic kTrainersTopics[] = {
    {"Fine-tuning and reinforcement learning", kFinetuning},
    {"Distillation", kDistillation},
    {"Loosely coupled replicas", kDiloco},
    {"Elastic training", kElastic},
};

}  // namespace

std::span<const Topic> trainers_topics() { return kTrainersTopics; }

}  // namespace moesh::config
