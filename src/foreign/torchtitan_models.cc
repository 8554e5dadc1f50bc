// The models that torchtitan ships, with the corresponding presets of moesh, and its configurations.
#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "foreign/torchtitan.h"

namespace moesh::foreign {
namespace {

struct Flavor {
  std::string_view model, flavor, preset;
};

constexpr Flavor kFlavors[] = {
    {"llama3", "8B", "llama3.1-8b"},
    {"llama3", "70B", "llama3.1-70b"},
    {"llama3", "405B", "llama3.1-405b"},
    {"llama4", "17bx16e", "llama4-17b-16e"},
    {"llama4", "17bx128e", "llama4-17b-128e"},
    {"deepseek_v3", "16B", "deepseek2-16b"},
    {"deepseek_v3", "236B", "deepseek2-236b"},
    {"deepseek_v3", "671B", "deepseek3-671b"},
    {"qwen3", "0.6B", "qwen3-0.6b"},
    {"qwen3", "1.7B", "qwen3-1.7b"},
    {"qwen3", "4B", "qwen3-4b"},
    {"qwen3", "8B", "qwen3-8b"},
    {"qwen3", "14B", "qwen3-14b"},
    {"qwen3", "32B", "qwen3-32b"},
    {"qwen3", "30B-A3B", "qwen3-30b-a3b"},
    {"qwen3", "235B-A22B", "qwen3-235b-a22b"},
    {"gpt_oss", "20b", "gpt-oss-20b"},
    {"gpt_oss", "120b", "gpt-oss-120b"},
};

// The settings that the functions of torchtitan's config_registry.py make.
struct Configuration {
  std::string_view name, settings;
};

constexpr Configuration kConfigurations[] = {
    {"llama3_8b",
     "--model.name llama3 --model.flavor 8B --training.num_tokens_per_microbatch_per_dp_rank 8192 "
     "--training.max_context_length 8192 --training.steps 1000 --optimizer.lr 3e-4 --activation_checkpoint.mode selective"},
    {"llama3_70b",
     "--model.name llama3 --model.flavor 70B --training.num_tokens_per_microbatch_per_dp_rank 65536 "
     "--training.max_context_length 8192 --training.steps 1000 --optimizer.lr 1.5e-4 --activation_checkpoint.mode full "
     "--parallelism.tensor_parallel_degree 8"},
    {"llama3_405b",
     "--model.name llama3 --model.flavor 405B --training.num_tokens_per_microbatch_per_dp_rank 16384 "
     "--training.max_context_length 8192 --training.steps 3000 --optimizer.lr 8e-5 --lr_scheduler.warmup_steps 600 "
     "--activation_checkpoint.mode full --parallelism.tensor_parallel_degree 8 --model.converters float8"},
    {"deepseek_v3_16b",
     "--model.name deepseek_v3 --model.flavor 16B --training.num_tokens_per_microbatch_per_dp_rank 16384 "
     "--training.max_context_length 4096 --training.steps 1000 --optimizer.lr 2.2e-4 --lr_scheduler.decay_ratio 0.8 "
     "--lr_scheduler.decay_type cosine --lr_scheduler.min_lr_factor 0.1 --activation_checkpoint.mode selective "
     "--parallelism.expert_parallel_degree 8"},
    {"deepseek_v3_671b",
     "--model.name deepseek_v3 --model.flavor 671B --training.num_tokens_per_microbatch_per_dp_rank 16384 "
     "--training.max_context_length 4096 --training.steps 10000 --optimizer.lr 2.2e-4 --lr_scheduler.warmup_steps 2000 "
     "--lr_scheduler.decay_ratio 0.8 --lr_scheduler.decay_type cosine --lr_scheduler.min_lr_factor 0.1 "
     "--activation_checkpoint.mode selective --parallelism.expert_parallel_degree 2"},
    {"qwen3_0_6b",
     "--model.name qwen3 --model.flavor 0.6B --training.num_tokens_per_microbatch_per_dp_rank 16384 "
     "--training.max_context_length 4096 --training.steps 10 --optimizer.lr 3e-4 --lr_scheduler.warmup_steps 2 "
     "--activation_checkpoint.mode selective"},
    {"qwen3_1_7b",
     "--model.name qwen3 --model.flavor 1.7B --training.num_tokens_per_microbatch_per_dp_rank 16384 "
     "--training.max_context_length 4096 --training.steps 100 --optimizer.lr 8e-4 --lr_scheduler.warmup_steps 20 "
     "--activation_checkpoint.mode selective"},
    {"qwen3_14b",
     "--model.name qwen3 --model.flavor 14B --training.num_tokens_per_microbatch_per_dp_rank 16384 "
     "--training.max_context_length 4096 --training.steps 3000 --optimizer.lr 8e-4 --lr_scheduler.warmup_steps 600 "
     "--activation_checkpoint.mode full"},
    {"qwen3_32b",
     "--model.name qwen3 --model.flavor 32B --training.num_tokens_per_microbatch_per_dp_rank 8192 "
     "--training.max_context_length 4096 --training.steps 3000 --optimizer.lr 8e-4 --lr_scheduler.warmup_steps 600 "
     "--activation_checkpoint.mode full"},
    {"qwen3_30b_a3b",
     "--model.name qwen3 --model.flavor 30B-A3B --training.num_tokens_per_microbatch_per_dp_rank 8192 "
     "--training.max_context_length 4096 --training.steps 3000 --optimizer.lr 8e-4 --lr_scheduler.warmup_steps 600 "
     "--activation_checkpoint.mode full"},
    {"gpt_oss_20b",
     "--model.name gpt_oss --model.flavor 20b --training.num_tokens_per_microbatch_per_dp_rank 8192 "
     "--training.max_context_length 8192 --training.steps 10000 --optimizer.lr 8e-4 --lr_scheduler.warmup_steps 2000 "
     "--lr_scheduler.decay_ratio 0.8 --lr_scheduler.decay_type cosine --lr_scheduler.min_lr_factor 0.1 "
     "--activation_checkpoint.mode full"},
    {"gpt_oss_120b",
     "--model.name gpt_oss --model.flavor 120b --training.num_tokens_per_microbatch_per_dp_rank 8192 "
     "--training.max_context_length 8192 --training.steps 10000 --optimizer.lr 8e-4 --lr_scheduler.warmup_steps 2000 "
     "--lr_scheduler.decay_ratio 0.8 --lr_scheduler.decay_type cosine --lr_scheduler.min_lr_factor 0.1 "
     "--activation_checkpoint.mode full"},
};

constexpr const char* kChunks = "8";  // in which all of them compute the loss

// A suffix such as in "8B_flex" or "17bx16e_irope" means another way to compute a model of the same sizes.
bool is_flavor(std::string_view asked, std::string_view flavor) {
  return asked == flavor || (asked.starts_with(flavor) && asked.substr(flavor.size()).starts_with('_'));
}

}  // namespace

std::string preset_of_flavor(const std::string& model, const std::string& flavor, const std::string& where) {
  std::vector<std::string> all, of_model;
  for (const Flavor& one : kFlavors) {
    if (one.model == model && is_flavor(flavor, one.flavor)) return std::string(one.preset);
    all.push_back(fmt::format("{} {}", one.model, one.flavor));
    if (one.model == model) of_model.push_back(all.back());
  }
  refuse(fmt::format("model '{}', flavor '{}' is none that moesh has: {} was expected", shorten(model, 40), shorten(flavor, 40),
                     join(of_model.empty() ? all : of_model, ", ")),
         where, "model_name= for one of `moesh help models` or a Hugging Face folder");
}

std::optional<std::vector<Flag>> settings_of_configuration(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kConfigurations), std::end(kConfigurations), [&](const Configuration& one) { return one.name == name; });
  if (found == std::end(kConfigurations)) return std::nullopt;
  const std::string where = fmt::format("--config {}", name);
  std::vector<Flag> settings = flags_of(split(found->settings, ' '), where);
  settings.push_back({"loss.num_chunks", {kChunks}, where});
  return settings;
}

std::vector<std::string> known_configurations() {
  std::vector<std::string> names;
  for (const Configuration& one : kConfigurations) names.emplace_back(one.name);
  return names;
}

}  // namespace moesh::foreign
