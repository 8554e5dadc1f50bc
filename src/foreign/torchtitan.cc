#include "foreign/torchtitan.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "foreign/degrees.h"
#include "foreign/launcher.h"

namespace moesh::foreign {
namespace {

constexpr const char* kWhere = "--from torchtitan";
constexpr const char* kTorchtitan = "torchtitan";

constexpr KnownFlags kIdleSettings[] = {
    {"how kernels compute; all are priced as well-tuned ones",
     "compile.components compile.backend compile.enable_async_tensor_parallel parallelism.enable_async_tensor_parallel "
     "optimizer.implementation training.disable_cuda_graphs training.gc_freq training.gc_debug training.compile parallelism.spmd_backend "
     "model.norm_type quantize.* float8.* mx.*"},
    {"data and tokenizers", "training.dataset training.dataset_path model.hf_assets_path model.tokenizer_path"},
    {"how and when bytes travel, which moesh plans by itself",
     "parallelism.enable_fsdp_symm_mem parallelism.pipeline_parallel_schedule "
     "parallelism.pipeline_parallel_schedule_csv parallelism.pipeline_parallel_expert_parallel_overlap "
     "parallelism.context_parallel_load_balancer "
     "parallelism.context_parallel_rotate_method parallelism.context_parallel_ptrr_mask_key parallelism.expert_parallel_comm_backend "
     "optimizer.early_step_in_backward"},
    {"how activation checkpointing is done",
     "activation_checkpoint.early_stop activation_checkpoint.preserve_rng_state activation_checkpoint.determinism_check "
     "activation_checkpoint.debug activation_checkpoint.visualize_memory_budget_pareto activation_checkpoint.memory_budget "
     "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns"},
    {"what is printed", "model.print_after_conversion"},
    {"of an older torchtitan, and not needed here",
     "estimate.mode estimate.memory model.attn_mask_type model.use_flex_attn optimizer.fused parallelism.enable_compiled_autograd "
     "training.checkpoint_folder training.checkpoint_interval training.checkpoint_interval_type training.data_parallel_type "
     "training.deterministic training.seed training.enable_loss_parallel training.fp8_linear "
     "training.enable_fsdp_float8_all_gather training.enable_fsdp_fp8_all_gather training.float8_scaling_type_* "
     "training.precompute_float8_dynamic_scale_for_fsdp"},
};

constexpr DifferingFlag kDifferingSettings[] = {
    {"parallelism.module_fqns_per_model_part", "stages have as many layers each"},
    {"parallelism.pipeline_parallel_first_stage_less_layers", "stages have as many layers each"},
    {"parallelism.pipeline_parallel_last_stage_less_layers", "stages have as many layers each"},
    {"lr_scheduler.total_steps", "the schedule is as long as training"},
    {"lr_scheduler.lr_min", "of an older torchtitan: lr_scheduler.min_lr_factor says where the rate ends"},
    {"training.warmup_pct", "of an older torchtitan: lr_scheduler.warmup_steps says how long the rate rises"},
    {"training.enable_selective_ac", "of an older torchtitan: activation_checkpoint.mode says what is recomputed"},
    {"parallelism.pipeline_parallel_split_points", "of an older torchtitan: stages have as many layers each"},
};

constexpr std::string_view kTranslatedSettings[] = {"model.name",
                                            "model.flavor",
                                            "model.converters",
                                            "training.seq_len",
                                            "training.max_context_length",
                                            "training.local_batch_size",
                                            "training.global_batch_size",
                                            "training.num_tokens_per_microbatch_per_dp_rank",
                                            "training.num_tokens_per_train_step",
                                            "training.steps",
                                            "training.max_norm",
                                            "training.dtype",
                                            "training.mixed_precision_param",
                                            "training.mixed_precision_reduce",
                                            "training.enable_cpu_offload",
                                            "parallelism.data_parallel_replicate_degree",
                                            "parallelism.data_parallel_shard_degree",
                                            "parallelism.fsdp_reshard_after_forward",
                                            "parallelism.disable_loss_parallel",
                                            "parallelism.tensor_parallel_degree",
                                            "parallelism.enable_sequence_parallel",
                                            "parallelism.context_parallel_degree",
                                            "parallelism.pipeline_parallel_degree",
                                            "parallelism.pipeline_parallel_microbatch_size",
                                            "parallelism.pipeline_parallel_layers_per_stage",
                                            "parallelism.pipeline_parallel_microbatches",
                                            "parallelism.num_pp_microbatches",
                                            "parallelism.expert_parallel_degree",
                                            "parallelism.expert_tensor_parallel_degree",
                                            "activation_checkpoint.mode",
                                            "activation_checkpoint.selective_ac_option",
                                            "compile.enable",
                                            "loss.num_chunks",
                                            "optimizer.name",
                                            "optimizer.lr",
                                            "optimizer.eps",
                                            "optimizer.weight_decay",
                                            "optimizer.beta1",
                                            "optimizer.beta2",
                                            "lr_scheduler.warmup_steps",
                                            "lr_scheduler.decay_ratio",
                                            "lr_scheduler.decay_type",
                                            "lr_scheduler.min_lr_factor",
                                            "debug.moe_force_load_balance",
                                            "float8.enable_float8_linear"};

// Sections that do not affect a training step.
constexpr std::string_view kIdleSections[] = {
    "job",       "profiling",       "profiler",          "metrics",      "checkpoint", "checkpointer",       "comm", "debug", "validation",
    "validator", "fault_tolerance", "memory_estimation", "experimental", "dataloader", "training.dataloader"};

class Job {
 public:
  Job(Flags& flags, std::optional<std::int64_t> devices, Translation& translation)
      : flags_(flags), told_(devices), translation_(translation) {}

  void give() {
    check_names_of_batch();
    length_ = flags_.integer("training.max_context_length", 1).value_or(flags_.integer("training.seq_len", 1).value_or(2048));
    is_narrow_ = format_of_arithmetic() == "bfloat16";
    give_model();
    translation_.give("max_target_length", length_);
    give_parallelism();
    give_checkpointing();
    give_formats();
    give_optimizer();
    give_schedule();
  }

 private:
  std::int64_t degree(std::string_view name) { return flags_.integer(fmt::format("parallelism.{}", name), 1).value_or(1); }

  // Settings of today's torchtitan and of an older one do not go together: neither has both.
  void check_names_of_batch() {
    const auto check = [&](std::string_view now, std::initializer_list<std::string_view> earlier) {
      if (!flags_.is_given(now)) return;
      for (const std::string_view name : earlier) {
        if (flags_.is_given(name)) flags_.refuse_value(name, fmt::format("{}, which is given too, in its place", now));
      }
    };
    check("training.max_context_length", {"training.seq_len"});
    check("training.num_tokens_per_microbatch_per_dp_rank", {"training.local_batch_size", "training.global_batch_size"});
    check("training.num_tokens_per_train_step", {"training.local_batch_size", "training.global_batch_size"});
  }

  void give_model() {
    const std::string model = flags_.text("model.name").value_or("llama3");
    const Flag* flavor = flags_.find("model.flavor");
    const std::string asked = flags_.text("model.flavor").value_or("debugmodel");
    const std::optional<std::string> own = translation_.own("model_name");
    if (!own && flavor == nullptr && !flags_.has("model.name")) {
      refuse("neither model.name nor model.flavor is given, and torchtitan's default, a model for debugging, is none that moesh has",
             kWhere, "add both, such as --model.name llama3 --model.flavor 8B, or model_name= for one of `moesh help models`");
    }
    const std::string preset = own ? *own : preset_of_flavor(model, asked, flavor == nullptr ? kWhere : flavor->where);
    translation_.give("model_name", preset);
    model_ = facts_of(preset);
    if (flags_.boolean("debug.moe_force_load_balance").value_or(false) && model_.experts > 0) translation_.give("use_random_routing", true);
  }

  void give_parallelism() {
    Degrees degrees;
    degrees.replicas = degree("data_parallel_replicate_degree");
    const std::int64_t shards = flags_.integer("parallelism.data_parallel_shard_degree", -1).value_or(-1);
    if (shards == 0) flags_.refuse_value("parallelism.data_parallel_shard_degree", "a whole number from 1, or -1 for what is left");
    if (shards > 0) degrees.data = shards;
    degrees.tensor = degree("tensor_parallel_degree");
    degrees.context = degree("context_parallel_degree");
    degrees.stages = degree("pipeline_parallel_degree");
    degrees.experts = degree("expert_parallel_degree");
    degrees.tensor_in_experts = degree("expert_tensor_parallel_degree");
    degrees.shards_sequence = flags_.boolean("parallelism.enable_sequence_parallel").value_or(true);
    degrees.model = model_;
    if (model_.experts == 0) degrees.experts = 1;
    if (degrees.experts == 1) degrees.tensor_in_experts = degrees.tensor;
    const Devices devices = give_mesh(degrees, told_, kWhere, translation_);
    give_rows(degrees, devices);
    tell_gathers(degrees, devices);
    tell_gradients(degrees, devices);
    give_loss(degrees);
    give_room_for_rows(degrees, translation_);
    if (devices.stages == 1) return;
    const std::int64_t chunk = flags_.integer("parallelism.pipeline_parallel_layers_per_stage", 1).value_or(0);
    give_stages(model_, devices.stages, devices.stages == degrees.stages ? chunk : 0, kWhere, translation_);
  }

  void give_rows(const Degrees& degrees, const Devices& devices) {
    const bool pipelines = degrees.stages > 1;
    const auto length = static_cast<double>(length_), data = static_cast<double>(devices.data);
    Batch batch;
    if (const auto tokens = flags_.integer("training.num_tokens_per_microbatch_per_dp_rank", 1)) {
      const auto all = flags_.integer("training.num_tokens_per_train_step", -1).value_or(-1);
      batch.rows = static_cast<double>(*tokens) / length;
      batch.parts = pipelines ? degree("num_pp_microbatches") : 1;
      if (all > 0) batch.all_rows = static_cast<double>(all) / length;
      tell_refused_length(degrees, *tokens, "tokens of a microbatch");
    } else {
      tell_refused_length(degrees, length_, "tokens of a row");
      const std::int64_t rows = flags_.integer("training.local_batch_size", 1).value_or(8);
      const std::int64_t all = flags_.integer("training.global_batch_size", -1).value_or(-1);
      batch.rows = static_cast<double>(pipelines ? rows_of_microbatch(rows) : rows);
      batch.all_rows = all > 0 ? static_cast<double>(all) : static_cast<double>(rows) * data;
    }
    if (give_batch(batch, devices, degrees.stages, kWhere, translation_) > 1) translation_.give("reduce_gradients", "each_pass");
  }

  // The loss keeps the logarithms of probabilities, of which it makes two gradients, all float32. A compiled one reads the bfloat16 logits
  // again and writes such gradients. Tensor parallelism splits them, unless it is told not to.
  void give_loss(const Degrees& degrees) {
    const bool is_compiled = flags_.boolean("compile.enable").value_or(false);
    const bool is_whole = flags_.boolean("parallelism.disable_loss_parallel").value_or(false);
    const std::int64_t chunks = flags_.integer("loss.num_chunks", 1).value_or(1);
    translation_.run_by({kTorchtitan, (is_compiled ? 4 : 12) * (is_whole ? degrees.tensor : 1), chunks});
  }

  void tell_gathers(const Degrees& degrees, const Devices& devices) {
    const std::string when = flags_.choice("parallelism.fsdp_reshard_after_forward", "default", {"default", "always", "never"});
    const bool keeps = when == "never" || (when == "default" && degrees.stages > 1);
    const std::int64_t shards = devices.data / degrees.replicas * degrees.context;
    if (!keeps || shards <= 1) return;
    tell_kept_weights("--parallelism.fsdp_reshard_after_forward " + when, kTorchtitan, is_narrow_, translation_);
  }

  void tell_gradients(const Degrees& degrees, const Devices& devices) {
    const std::string format = flags_.choice("training.mixed_precision_reduce", "float32", {"bfloat16", "float32"});
    if (format != "float32" || !is_narrow_ || devices.data * degrees.context == 1) return;
    tell_narrow_sums(kTorchtitan, translation_);
  }

  // An older torchtitan is told the number of microbatches rather than their rows.
  std::int64_t rows_of_microbatch(std::int64_t rows) {
    const auto parts = flags_.integer("parallelism.pipeline_parallel_microbatches", 1);
    if (!parts) return std::min(rows, degree("pipeline_parallel_microbatch_size"));
    if (rows % *parts != 0)
      flags_.refuse_value("parallelism.pipeline_parallel_microbatches",
                          fmt::format("a divisor of the {} of a device", counted(rows, "row")));
    return rows / *parts;
  }

  // torchtitan refuses what tensor and context parallelism do not divide, also where it can be planned.
  void tell_refused_length(const Degrees& degrees, std::int64_t tokens, const char* of_what) {
    const double unit = 2 * static_cast<double>(degrees.tensor) * static_cast<double>(degrees.context);
    if (std::fmod(static_cast<double>(tokens), unit) == 0) return;
    translation_.differ(fmt::format("torchtitan refuses {} {}: a multiple of {}, tensor x twice the context parallelism, is expected there",
                                    tokens, of_what, unit));
  }

  void give_checkpointing() {
    const std::string mode = flags_.choice("activation_checkpoint.mode", "selective", {"none", "selective", "full", "memory_budget"});
    const std::string option = flags_.text("activation_checkpoint.selective_ac_option").value_or("op");
    if (mode == "full") {
      translation_.give("remat_policy", "full");
    } else if (mode == "none") {
      translation_.give("remat_policy", "everything");
      if (!flags_.boolean("compile.enable").value_or(false))
        translation_.differ(
            "activation checkpointing none: the results of MLPs' activation functions are made again, where torchtitan keeps them unless "
            "compiled: 2 bytes more for each token, layer and column of an MLP's width");
    } else {
      translation_.give("remat_policy", "save_dot_with_context_except_mlp");
      translation_.differ(fmt::format(
          "activation checkpointing {}: attention's products are kept and those of MLPs made again, where torchtitan keeps {}", mode,
          mode == "memory_budget" ? "what its budget has room for"
          : option == "op"        ? "about every second product"
                                  : fmt::format("all of some layers (selective_ac_option {})", option)));
    }
  }

  std::string format_of_arithmetic() { return flags_.choice("training.mixed_precision_param", "bfloat16", {"bfloat16", "float32"}); }

  void give_formats() {
    const std::vector<std::string> formats{"bfloat16", "float32"};
    const std::string kept = flags_.choice("training.dtype", "float32", formats);
    const std::string computed = format_of_arithmetic();
    if (kept != "float32") translation_.give("weight_dtype", kept);
    if (computed != "bfloat16") translation_.give("dtype", computed);
    if (flags_.boolean("training.enable_cpu_offload").value_or(false)) {
      translation_.give("optimizer_memory_host_offload", true);
      translation_.differ(
          "--training.enable_cpu_offload: moments are planned in the host's memory, parameters and gradients in the device's");
    }
    if (flags_.boolean("float8.enable_float8_linear").value_or(false)) translation_.give("quantization", "te_fp8_currentscaling");
    const Flag* converters = flags_.find("model.converters");
    if (converters == nullptr) return;
    for (const std::string& converter : converters->values) {
      if (converter.find("float8") != std::string::npos) translation_.give("quantization", "te_fp8_currentscaling");
      if (converter.find("mx") != std::string::npos) translation_.give("quantization", "te_mxfp8");
    }
  }

  void give_optimizer() {
    const std::string name = flags_.text("optimizer.name").value_or("AdamW");
    if (name == "Muon" || name == "DistMuon") translation_.give("opt_type", "muon");
    translation_.give("learning_rate", flags_.real("optimizer.lr"));
    translation_.give("adam_eps", flags_.real("optimizer.eps"));
    translation_.give("adam_weight_decay", flags_.real("optimizer.weight_decay"));
    translation_.give("adam_b1", flags_.real("optimizer.beta1"));
    translation_.give("adam_b2", flags_.real("optimizer.beta2"));
    translation_.give("gradient_clipping_threshold", flags_.real("training.max_norm"));
  }

  void give_schedule() {
    const std::int64_t steps = flags_.integer("training.steps", 1).value_or(10000);
    const std::int64_t warmup = flags_.integer("lr_scheduler.warmup_steps", 0).value_or(200);
    const double rises = std::min(1.0, static_cast<double>(warmup) / static_cast<double>(steps));
    const double falls = std::min(flags_.real("lr_scheduler.decay_ratio").value_or(1), 1 - rises);
    const std::string style = flags_.choice("lr_scheduler.decay_type", "linear", {"linear", "sqrt", "cosine"});
    const double least = flags_.real("lr_scheduler.min_lr_factor").value_or(0);
    if (falls < 0) flags_.refuse_value("lr_scheduler.decay_ratio", "a share from 0 to 1");
    if (least < 0) flags_.refuse_value("lr_scheduler.min_lr_factor", "a share from 0 to 1");
    translation_.give("steps", steps);
    translation_.give("warmup_steps_fraction", rises);
    translation_.give("lr_schedule_type", "wsd");
    translation_.give("wsd_decay_steps_fraction", falls);
    if (style == "cosine") translation_.give("wsd_decay_style", style);
    if (style == "sqrt") translation_.differ("--lr_scheduler.decay_type sqrt: the rate falls in a straight line");
    translation_.give("learning_rate_final_fraction", least);
  }

  Flags& flags_;
  std::optional<std::int64_t> told_;
  Translation& translation_;
  ModelFacts model_;
  std::int64_t length_ = 0;
  bool is_narrow_ = true;  // computes in bfloat16
};

std::vector<Flag> read_job(const std::string& path) {
  return job_settings(read_file(path, "the job", kMostBytes, "name the TOML file of a job"), path);
}

// Names of settings in older job files, and the names under which they are looked up.
constexpr std::pair<std::string_view, std::string_view> kEarlier[] = {
    {"training.batch_size", "training.local_batch_size"},
    {"training.data_parallel_degree", "parallelism.data_parallel_shard_degree"},
    {"training.data_parallel_shard_degree", "parallelism.data_parallel_shard_degree"},
    {"training.data_parallel_replicate_degree", "parallelism.data_parallel_replicate_degree"},
    {"training.tensor_parallel_degree", "parallelism.tensor_parallel_degree"},
    {"training.sequence_parallel_degree", "parallelism.tensor_parallel_degree"},
    {"training.pipeline_parallel_degree", "parallelism.pipeline_parallel_degree"},
    {"training.enable_float8_linear", "float8.enable_float8_linear"},
    {"training.enable_fp8_linear", "float8.enable_float8_linear"},
    {"training.debug_moe_force_load_balance", "debug.moe_force_load_balance"},
    {"training.warmup_steps", "lr_scheduler.warmup_steps"},
    {"training.disable_loss_parallel", "parallelism.disable_loss_parallel"},
    {"training.fsdp_reshard_after_forward", "parallelism.fsdp_reshard_after_forward"},
    {"experimental.context_parallel_degree", "parallelism.context_parallel_degree"},
    {"experimental.pipeline_parallel_degree", "parallelism.pipeline_parallel_degree"},
    {"experimental.pipeline_parallel_microbatches", "parallelism.pipeline_parallel_microbatches"},
    {"experimental.pipeline_parallel_split_points", "parallelism.pipeline_parallel_split_points"},
};

void spell_as_now(Flag& flag) {
  const auto earlier = std::find_if(std::begin(kEarlier), std::end(kEarlier), [&](const auto& names) { return names.first == flag.name; });
  if (earlier != std::end(kEarlier)) flag.name = earlier->second;
}

// On the command line (tyro) dashes stand for underscores, and "no-" before a name means false.
void spell_as_in_files(Flag& flag) {
  std::replace(flag.name.begin(), flag.name.end(), '-', '_');
  const std::size_t name = flag.name.rfind('.') + 1;
  if (name == 0 || flag.name.compare(name, 3, "no_") != 0) return;
  flag.name.erase(name, 3);
  flag.values = {"false"};
}

// The job file: the first word that ends in .toml, after --job.config_file, after CONFIG_FILE= or anywhere else.
std::optional<std::string> job_file_of(const std::vector<ShellWord>& words) {
  for (const ShellWord& word : words) {
    const std::size_t equals = word.text.rfind('=');
    if (word.text.ends_with(".toml")) return word.text.substr(equals == std::string::npos ? 0 : equals + 1);
  }
  return std::nullopt;
}

std::optional<std::string> configuration_of(const std::vector<ShellWord>& words, const std::vector<Flag>& flags) {
  for (const Flag& flag : flags) {
    if (flag.name == "config" && flag.values.size() == 1) return flag.values.front();
  }
  for (const ShellWord& word : words) {
    if (word.text.starts_with("CONFIG=")) return word.text.substr(7);
  }
  return std::nullopt;
}

// Today's torchtitan counts tokens where an older one counted rows. Flags of the older one override a configuration that counts tokens: the
// rows that these make, and their length, are its settings then.
void count_rows_if_asked(std::vector<Flag>& configuration, const std::vector<Flag>& given) {
  constexpr std::string_view kOfRows[] = {"training.seq_len", "training.local_batch_size", "training.global_batch_size",
                                          "parallelism.pipeline_parallel_microbatch_size", "parallelism.pipeline_parallel_microbatches"};
  constexpr std::string_view kLength = "training.max_context_length", kTokens = "training.num_tokens_per_microbatch_per_dp_rank";
  const auto is_given = [&](std::string_view name) {
    return std::any_of(given.begin(), given.end(), [&](const Flag& flag) { return flag.name == name; });
  };
  if (std::none_of(std::begin(kOfRows), std::end(kOfRows), is_given)) return;
  std::vector<Flag> counting_rows;
  Flags all(configuration);
  const std::int64_t length = all.integer(kLength, 1).value_or(1), rows = all.integer(kTokens, 1).value_or(length) / length;
  for (Flag& flag : configuration) {
    if (flag.name == kLength && is_given("training.seq_len")) continue;
    if (flag.name == kTokens) {
      if (is_given(kTokens)) continue;
      flag.name = "training.local_batch_size";
      flag.values = {std::to_string(rows)};
    }
    counting_rows.push_back(std::move(flag));
  }
  configuration = std::move(counting_rows);
}

// All settings, where later ones override earlier ones: those of a named configuration, of a job file, and of flags.
std::vector<Flag> all_settings(const std::vector<ShellWord>& words, std::vector<Flag> given) {
  std::vector<Flag> all;
  for (Flag& flag : given) {
    spell_as_in_files(flag);
    spell_as_now(flag);
  }
  if (const auto name = configuration_of(words, given)) {
    std::optional<std::vector<Flag>> known = settings_of_configuration(*name);
    if (!known) {
      refuse(fmt::format("configuration '{}' is Python that moesh does not read, one of {} was expected", shorten(*name, 60),
                         join(known_configurations(), ", ")),
             kWhere, "give its settings as flags: --model.name llama3 --model.flavor 8B --training.seq_len 8192 ...");
    }
    all = std::move(*known);
  }
  std::vector<Flag> own;
  if (const auto path = job_file_of(words)) own = read_job(*path);
  std::for_each(own.begin(), own.end(), spell_as_now);
  for (Flag& flag : given) {
    if (flag.name != "config" && flag.name != "module" && flag.name != "job.config_file") own.push_back(std::move(flag));
  }
  count_rows_if_asked(all, own);
  std::move(own.begin(), own.end(), std::back_inserter(all));
  return all;
}

bool is_in_idle_section(const std::string& name) {
  return std::any_of(std::begin(kIdleSections), std::end(kIdleSections),
                     [&](std::string_view section) { return name.starts_with(section) && name.substr(section.size()).starts_with('.'); });
}

// Removes the settings of sections that do not affect a step, with one note that names the sections.
std::vector<Flag> without_idle_sections(std::vector<Flag> all, Translation& translation) {
  std::vector<std::string> sections;
  std::erase_if(all, [&](const Flag& flag) {
    if (!is_in_idle_section(flag.name) || flag.name == "debug.moe_force_load_balance") return false;
    const std::string section = flag.name.substr(0, flag.name.find('.'));
    if (std::find(sections.begin(), sections.end(), section) == sections.end()) sections.push_back(section);
    return true;
  });
  if (!sections.empty()) translation.note(Note::Kind::idle, join(sections, ", ") + " (sections that say nothing of a step)");
  return all;
}

// Today's torchtitan takes the kind of activation checkpointing as a word of its own: "activation_checkpoint:memory-budget".
std::vector<std::string> with_modes_as_flags(std::vector<std::string> words) {
  for (std::string& word : words) {
    std::string plain = word;
    std::replace(plain.begin(), plain.end(), '-', '_');
    const std::string_view begin = "activation_checkpoint:";
    if (plain.starts_with(begin)) word = "--activation_checkpoint.mode=" + plain.substr(begin.size());
  }
  return words;
}

// Refuses a single word that is neither a flag nor a TOML file, such as "job.yaml", which would otherwise be taken as a command without
// any settings.
void check_single_word(const std::vector<ShellWord>& words) {
  if (words.size() != 1) return;
  const std::string& word = words.front().text;
  if (word.starts_with("--") || word.ends_with(".toml") || word.find('=') != std::string::npos) return;
  refuse(fmt::format("'{}' is neither a TOML file nor a command", shorten(word, 80)), kWhere,
         "name a job's file, which ends in .toml, or give the command in quotes");
}

}  // namespace

std::span<const std::string_view> translated_torchtitan_settings() { return kTranslatedSettings; }

Imported from_torchtitan(const std::vector<ShellWord>& words, const std::vector<std::string>& own) {
  check_single_word(words);
  const Launched launched = take_launcher(words, kWhere);
  Translation translation(own);
  Flags flags(without_idle_sections(all_settings(words, flags_of(with_modes_as_flags(launched.words), kWhere)), translation));
  Job(flags, launched.devices, translation).give();
  note_what_is_left(flags, {"torchtitan", kIdleSettings, kDifferingSettings, kTranslatedSettings}, translation);
  return translation.take();
}

}  // namespace moesh::foreign
