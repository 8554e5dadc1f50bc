#include "advice/in_turns.h"

#include <algorithm>

#include <fmt/core.h>

#include "sharding/labels.h"
#include "sharding/lint_checks.h"

namespace moesh::advice {

config::Keys in_turns(const sharding::Layout& layout, std::int64_t parts) {
  config::Keys keys{"use_batch_split_schedule=true", fmt::format("batch_split_factor={}", parts)};
  if (has_rule(layout.rules, labels::expert_only)) return keys;
  const auto is_of_experts = [](const config::AxisRule& rule) { return rule.label == labels::exp; };
  const auto rule = std::find_if(layout.rules.begin(), layout.rules.end(), is_of_experts);
  if (rule == layout.rules.end()) return {};
  const config::Keys rules = sharding::with_rules(layout, {{labels::expert_only, {rule->axes}}});
  if (rules.empty()) return {};
  keys.insert(keys.end(), rules.begin(), rules.end());
  return keys;
}

}  // namespace moesh::advice
