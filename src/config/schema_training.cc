// Training: the loop, the learning rate, optimizers and evaluation.
#include "config/schema_topics.h"

namespace moesh::config {
namespace {

using enum Kind;
using enum Status;

constexpr std::string_view kHelpRampup = "how the batch of enable_rampup_batch_size grows";

constexpr Key kBatch[] = {
    {"per_device_batch_size", real, "12.0", "0.000001..1000000", used,
     "rows of the batch per device; below 1, several devices share a row"},
    {"max_target_length", integer, "2048", kSize, used, "tokens in a row", OnTexts::kept},
};

constexpr Key kTraining[] = {
    {"steps", integer, "150001", "-1..1000000000", used, "steps to train; -1 for learning_rate_schedule_steps"},
    {"gradient_accumulation_steps", integer, "1", kCount, used, "batches whose gradients are summed before an update"},
    {"reduce_gradients", choice, "auto", "auto|each_pass|once", used,
     "moesh's own: when devices sum the gradients of all passes; auto: once, where chips are faster so, and it fits"},
    {"training_objective", choice, "causal_lm", "causal_lm|!block_diffusion", planned_without,
     "what the model learns to predict; only the next token here"},
    {"z_loss_multiplier", real, "0.0", "0..1000000", used,
     "weight of the squared log of the softmax's denominator in the loss; 0 for none"},
    {"init_weights_seed", integer, "0", "0..4294967295", used, "seed of the initial parameters"},
    {"abort_on_nan_loss", boolean, "true", "", used, "stops when the loss is not a number"},
    {"abort_on_inf_loss", boolean, "true", "", used, "stops when the loss is infinite"},
    {"non_finite_policy", choice, "stop", "stop|skip_step", used,
     "when a loss or gradient is not finite: end the run (see abort_on_nan_loss), or leave out that update"},
    {"reuse_example_batch", integer, "0", "0..1000000000", used, "for measurements: trains on the first batch again and again if not 0"},
    {"enable_rampup_batch_size", boolean, "false", "", planned_without, "starts with a small batch that grows"},
    {"per_device_batch_size_start", real, "4.0", "", accepted, kHelpRampup},
    {"per_device_batch_size_increment", real, "2.0", "", accepted, kHelpRampup},
    {"global_rampup_samples", integer, "500", "", accepted, kHelpRampup},
    {"skip_step_on_spikes", boolean, "false", "", used,
     "leaves out updates whose loss or gradient norm stands out from those of recent steps"},
    {"skip_step_interval", integer, "128", "1..1000000", used, "skip_step_on_spikes: how many steps are recent"},
    {"skip_step_scaling_factor", real, "6.0", "0..1000000", used,
     "skip_step_on_spikes: standard deviations above the mean that are allowed"},
    {"trainable_parameters_mask", texts, "[]", "", used,
     "regular expressions: only parameters whose path holds one are trained; empty for all"},
};

constexpr Key kSchedule[] = {
    {"learning_rate", real, "3e-05", "0..1000000", used, "learning rate at its peak"},
    {"lr_schedule_type", choice, "cosine", "cosine|wsd", used,
     "cosine: warm-up, then a cosine down; wsd: warm-up, level, then down"},
    {"warmup_steps_fraction", real, "0.1", kFraction, used, "share of the schedule in which the rate rises from 0"},
    {"learning_rate_final_fraction", real, "0.1", "0..1000000", used,
     "rate at the end of the schedule, relative to the peak"},
    {"learning_rate_schedule_steps", integer, "-1", "-1..1000000000", used,
     "steps of the schedule; -1 for as many as steps"},
    {"wsd_decay_steps_fraction", real, "0.1", kFraction, used,
     "lr_schedule_type=wsd: share of the schedule in which the rate falls"},
    {"wsd_decay_style", choice, "linear", "linear|cosine", used, "lr_schedule_type=wsd: how the rate falls"},
};

constexpr Key kOptimizer[] = {
    {"opt_type", choice, "adamw", "adamw|adam_pax|sgd|muon", used, "optimizer"},
    {"gradient_clipping_threshold", real, "1.0", "0..1000000000", used,
     "gradients with a larger norm are scaled down to it; 0 for no limit"},
    {"adam_b1", real, "0.9", kDecay, used, "decay of Adam's mean of gradients"},
    {"adam_b2", real, "0.95", kDecay, used, "decay of Adam's mean of squared gradients"},
    {"adam_eps", real, "1e-08", "0..1000000", used, "small number added to Adam's denominator, outside the root"},
    {"adam_eps_root", real, "0.0", "0..1000000", used, "small number added to Adam's denominator, under the root"},
    {"adam_weight_decay", real, "0.1", "0..1000000", used, "weight decay of Adam"},
    {"adamw_mask", texts, "[]", "", used,
     "regular expressions: adamw and adam_pax do not decay parameters whose path holds one; empty for none"},
    {"mu_dtype", choice, "", "|bfloat16|float32", used, "format of the first moment; empty for weight_dtype, as adam_pax keeps it always"},
    {"muon_beta", real, "0.95", kDecay, used, "decay of Muon's mean of gradients"},
    {"muon_weight_decay", real, "0", "0..1000000", used, "weight decay of Muon"},
    {"muon_consistent_rms", real, "null", "0..1000000", used,
     "size of an update's elements that Muon aims at; null to scale by the matrix's width"},
    {"use_tunix_gradient_accumulation", boolean, "false", "", planned_without, "leaves gradient accumulation to another engine's trainer"},
};

constexpr Key kEvaluation[] = {
    {"eval_interval", integer, "-1", "-1..1000000000", used, "steps between evaluations; -1 for none"},
    {"eval_steps", integer, "-1", "-1..1000000000", used, "batches of an evaluation; -1 for the validation set once"},
    {"eval_start_step", integer, "0", "0..1000000000", used, "the first step that is followed by an evaluation"},
    {"eval_per_device_batch_size", real, "0.0", "0..1000000", used,
     "rows of an evaluation's batch for each device; 0 for as many as in training"},
    {"target_eval_loss", real, "0.0", "0..1000000", used, "training ends when an evaluation finds no more than this loss; 0 for never"},
};

constexpr Topic kTrainingTopics[] = {
    {"Batch", kBatch},
    {.title = "Training loop", .keys = kTraining, .is_of_training = true},
    {.title = "Learning rate", .keys = kSchedule, .is_of_training = true},
    {.title = "Optimizer", .keys = kOptimizer, .is_of_training = true},
    {.title = "Evaluation", .keys = kEvaluation, .scope = Scope::runs, .is_of_training = true},
};

}  // namespace

std::span<const Topic> training_topics() { return kTrainingTopics; }

}  // namespace moesh::config
