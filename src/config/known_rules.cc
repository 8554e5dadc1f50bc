#include "config/known_rules.h"

#include "config/builtin.h"
#include "config/schema.h"
#include "config/yaml.h"

namespace moesh::config {
namespace {

void add_rules_of(const std::string& path, std::vector<AxisRule>& rules) {
  constexpr std::string_view kRules = "logical_axis_rules";
  const YamlNode file = parse_yaml(find_builtin(path)->text, "configs/" + path);
  const YamlNode* node = file.find(kRules);
  if (node == nullptr) return;
  const auto read = std::get<std::vector<AxisRule>>(read_value(*find_key(kRules), *node));
  rules.insert(rules.end(), read.begin(), read.end());
}

}  // namespace

std::vector<AxisRule> known_rules() {
  std::vector<AxisRule> rules;
  add_rules_of("base.yml", rules);
  for (const char* folder : {"rules", "models"}) {
    for (const std::string& name : builtin_names(folder)) add_rules_of(std::string(folder) + "/" + name + ".yml", rules);
  }
  return rules;
}

}  // namespace moesh::config
