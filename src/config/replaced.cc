// Options that rule sets replaced: a notice if the rules in force already do the same, otherwise an error that names the right ones.
#include <array>
#include <string_view>

#include <fmt/core.h>

#include "base/error.h"
#include "config/load.h"

namespace moesh::config {
namespace {

struct Replacement {
  std::string_view option;
  std::string_view rule_set;  // empty: the default rules
};

constexpr std::array<Replacement, 3> kAttentionOptions{{{"tp", "ep-tp"}, {"context", "ep-as-cp"}, {"fsdp", ""}}};

struct Flag {
  std::string_view key;
  std::string_view rule_set;
};

constexpr std::array<Flag, 2> kFlags{{{"shard_exp_on_fsdp", "shard-exp-on-fsdp"}, {"use_2d_fsdp_sharding", "2d-fsdp"}}};

std::string spelled(std::string_view rule_set) {
  return rule_set.empty() ? "the default rules" : fmt::format("custom_mesh_and_rule={}", rule_set);
}

void answer(const Settings& settings, const std::string& option, std::string_view rule_set, std::string_view key,
            std::vector<std::string>& notices) {
  const std::string& chosen = settings.text("custom_mesh_and_rule");
  if (chosen == rule_set) {
    notices.push_back(fmt::format("{} is deprecated: {} already says it", option, spelled(rule_set)));
    return;
  }
  refuse(
      fmt::format("{} is deprecated, and {} {} in force", option, spelled(chosen), chosen.empty() ? "are" : "is"),
      settings.origin(key).where,
      rule_set.empty() ? "leave both options out: the default rules say it" : "use " + spelled(rule_set) + " instead");
}

}  // namespace

void answer_replaced_options(const Settings& settings, std::vector<std::string>& notices) {
  const std::string& option = settings.text("expert_shard_attention_option");
  for (const Replacement& replacement : kAttentionOptions) {
    if (replacement.option != option) continue;
    answer(settings, "expert_shard_attention_option=" + option, replacement.rule_set, "expert_shard_attention_option",
           notices);
  }
  for (const Flag& flag : kFlags) {
    if (!settings.boolean(flag.key)) continue;
    answer(settings, std::string(flag.key) + "=true", flag.rule_set, flag.key, notices);
  }
}

}  // namespace moesh::config
