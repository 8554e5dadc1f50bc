#include "config/rule_sources.h"

#include <algorithm>
#include <set>

#include <fmt/core.h>

#include "base/text.h"

namespace moesh::config {
namespace {

// "the model", "my.yml", "the command line"
std::string source_of(const AxisRule& rule) {
  if (rule.source == Source::preset) return "the model";
  return rule.source == Source::file ? rule.where.substr(0, rule.where.rfind(':')) : rule.where;
}

}  // namespace

std::string rules_words(const Settings& settings) {
  if (const std::string& set = settings.text("custom_mesh_and_rule"); !set.empty()) return set + " rules";
  std::vector<std::string> sources;
  bool has_defaults = false;
  for (const AxisRule& rule : settings.rules("logical_axis_rules")) {
    if (rule.source == Source::base) {
      has_defaults = true;
    } else if (const std::string source = source_of(rule); std::find(sources.begin(), sources.end(), source) == sources.end()) {
      sources.push_back(source);
    }
  }
  if (sources.empty()) return has_defaults ? "default rules" : "no rules";
  return fmt::format("{} {}", has_defaults ? "default rules with changes of" : "rules of", join(sources, " and "));
}

std::string note_of_replaced_rules(const Settings& defaults, const Settings& with_file) {
  std::set<std::string> left_out;
  for (const AxisRule& rule : defaults.rules("logical_axis_rules")) left_out.insert(rule.label);
  for (const AxisRule& rule : with_file.rules("logical_axis_rules")) left_out.erase(rule.label);
  if (left_out.empty() || with_file.origin("logical_axis_rules").source != Source::file) return "";
  return fmt::format("{}: logical_axis_rules of a file replace all default rules; without one {} now: {}. On the command line they replace "
                     "those of their own labels",
                     with_file.origin("logical_axis_rules").where, left_out.size() == 1 ? "is" : "are",
                     few_of({left_out.begin(), left_out.end()}));
}

}  // namespace moesh::config
