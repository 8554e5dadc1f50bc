#include "advice/in_turns.h"

#include <algorithm>

#include <fmt/core.h>

#include "sharding/labels.h"
#include "sharding/lint_checks.h"

namespace moesh::advice {

config::Keys in_turns(const sharding::Layout& layout, std::int64_t parts) {
  config::Keys keys{"use_batch_split_schedule=true", fmt::format("batch_split_factor={}", parts)};
  const auto rule_of = [&](const char* label) {
    return std::find_if(layout.rules.begin(), layout.rules.end(), [&](const config::AxisRule& rule) { return rule.label == label; });
  };
  if (rule_of(labels::expert_only) != layout.rules.end()) return keys;
  const auto rule = rule_of(labels::exp);
  if (rule == layout.rules.end()) return {};
  const config::Keys rules = sharding::with_rules(layout, {{labels::expert_only, {rule->axes}}});
  if (rules.empty()) return {};
  keys.insert(keys.end(), rules.begin(), rules.end());
  return keys;
}

}  // namespace moesh::advice
