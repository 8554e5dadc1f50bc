#include "config/load.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>

#include <fmt/core.h>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "config/assignments.h"
#include "config/builtin.h"
#include "config/hugging_face.h"
#include "config/model_shape.h"
#include "config/pipeline.h"
#include "config/relevance.h"
#include "config/rule_sources.h"
#include "config/support.h"

namespace moesh::config {
namespace {

// Rules of `added` replace all rules for their labels and go last.
std::vector<AxisRule> merge_rules(std::vector<AxisRule> rules, const std::vector<AxisRule>& added) {
  std::erase_if(rules, [&](const AxisRule& rule) {
    return std::any_of(added.begin(), added.end(), [&](const AxisRule& a) { return a.label == rule.label; });
  });
  rules.insert(rules.end(), added.begin(), added.end());
  return rules;
}

// The assignment override_logical_axis_rules=true of a source; null if the source does not set it.
const Assignment* replacing_flag(const Assignments& all) {
  const Assignment* flag = last_of(all, "override_logical_axis_rules");
  return flag != nullptr && std::get<bool>(flag->value) ? flag : nullptr;
}

// override_logical_axis_rules concerns only the rules of its own source. If the command line gives no rules with it, the reference empties
// the list.
void check_replacing_flag(const Assignments& all, bool has_rule_set, std::vector<std::string>& notices) {
  const Assignment* flag = replacing_flag(all);
  if (flag == nullptr || last_of(all, "logical_axis_rules") != nullptr) return;
  if (flag->origin.source == Source::command_line && !has_rule_set) {
    refuse("override_logical_axis_rules=true without logical_axis_rules, which would leave no rules at all", flag->origin.where,
           "logical_axis_rules=[[embed,[fsdp]],...] beside it, or leave it out");
  }
  notices.push_back(
      fmt::format("{}: override_logical_axis_rules=true has no effect without logical_axis_rules beside it", flag->origin.where));
}

// Rules of a preset, the environment and the command line are merged, label by label, into the current ones. Rules of a file replace the
// whole list, as all keys of a file replace those that it inherits; and so do rules given together with override_logical_axis_rules.
bool merges_rules(const Assignments& all, Source source) {
  return source != Source::base && source != Source::file && replacing_flag(all) == nullptr;
}

void assign_all(Settings& settings, const Assignments& all) {
  std::map<std::pair<const Key*, Source>, const Assignment*> last;
  for (const Assignment& assignment : all) last[{assignment.key, assignment.origin.source}] = &assignment;
  for (const Assignment& assignment : all) {
    const bool is_asked_of_plans = topic_of(*assignment.key).scope == Scope::plans;
    if (is_asked_of_plans) check_supported(*assignment.key, assignment.value, assignment.origin.where);
    if (last.at({assignment.key, assignment.origin.source}) != &assignment) continue;
    Value value = assignment.value;
    if (assignment.key->name == "logical_axis_rules" && merges_rules(all, assignment.origin.source)) {
      value = merge_rules(settings.rules("logical_axis_rules"), std::get<std::vector<AxisRule>>(value));
    }
    settings.set(assignment.key->name, std::move(value), assignment.origin);
  }
}

// How the names of MaxText's models begin that have something which moesh lacks.
constexpr std::pair<std::string_view, std::string_view> kLacking[] = {{"deepseek-custom", "tables of n-grams"},
                                                                      {"gemma4-e", "embeddings of each layer"}};

std::string model_file(std::string name, const std::string& where) {
  // Instruction-tuned variants have their base model's architecture.
  if (const std::size_t suffix = name.find("-Instruct"); suffix != std::string::npos) name.erase(suffix, 9);
  const std::string path = "models/" + name + ".yml";
  if (find_builtin(path) != nullptr) return path;
  for (const auto& [beginning, what] : kLacking) {
    if (name.starts_with(beginning))
      refuse(fmt::format("model '{}' has {}, which moesh lacks", shorten(name, 80), what), where, "`moesh help models` lists those it has");
  }
  const std::vector<std::string> close = nearest(name, builtin_names("models"));
  refuse(fmt::format("unknown model '{}'", shorten(name, 80)), where,
         (close.empty() ? "" : "did you mean " + join(close, ", ") + "? ") + "`moesh help models` lists them; " +
             "model_name may also be the path of a YAML file or of a Hugging Face folder");
}

Assignments read_hugging_face(const std::string& path) {
  Assignments all;
  for (const HuggingFaceKey& given : hugging_face_keys(path)) {
    const Key& key = known_key(given.key, given.where);
    all.push_back({&key, read_value(key, given.value, given.where), {Source::preset, given.where}});
  }
  return all;
}

// A model's name may be that of a preset, or the path of a YAML file or of a Hugging Face folder.
Assignments preset_of(const std::string& name, const std::string& where, std::vector<std::string>& notices) {
  if (is_yaml_path(name)) return last_of_each(read_inherited(name, Source::preset, notices));
  if (is_hugging_face(name)) return last_of_each(read_hugging_face(name));
  return assignments_of(parse_builtin(model_file(name, where)), Source::preset);
}

// Refuses keys whose values in the environment or on the command line differ from the preset's.
void check_against(const Assignments& given, const Assignments& preset, const std::string& name) {
  for (const Assignment& assignment : preset) {
    const Assignment* other = last_of(given, assignment.key->name);
    if (other == nullptr || assignment.key->name == "logical_axis_rules" || other->value == assignment.value) continue;
    refuse(fmt::format("{}={} contradicts {}={} of the model {}", assignment.key->name, to_string(other->value), assignment.key->name,
                       to_string(assignment.value), name),
           other->origin.where, "add override_model_config=true, or leave the key out");
  }
}

// The preset without the keys that are replaced by `given`, the assignments of the environment and the command line.
Assignments read_preset(const Settings& settings, const Assignments& given, std::vector<std::string>& notices) {
  const std::string& name = settings.text("model_name");
  if (name == "default") return {};
  Assignments preset = preset_of(name, settings.origin("model_name").where, notices);
  if (!settings.boolean("override_model_config")) {
    check_against(given, preset, name);
    return preset;
  }
  const Assignment *replaces = replacing_flag(preset), *rules = last_of(preset, "logical_axis_rules");
  const bool loses_rules = rules != nullptr && last_of(given, rules->key->name) != nullptr;
  std::optional<Assignment> no_rules;  // a preset that replaces the rules before it replaces them by none then, as in MaxText
  if (loses_rules && replaces != nullptr) no_rules = {rules->key, Value(std::vector<AxisRule>{}), rules->origin};
  if (loses_rules)
    notices.push_back(fmt::format("the rules of the model {} give way to those that are given, as override_model_config asks", name));
  std::erase_if(preset, [&](const Assignment& assignment) { return last_of(given, assignment.key->name) != nullptr; });
  if (no_rules) preset.push_back(*no_rules);
  return preset;
}

// Notes the keys of the user's file that the preset overrides. `settings` are those of the file, before the preset is applied.
void note_replaced_by_preset(const Settings& settings, const Assignments& preset, const std::string& name,
                             std::vector<std::string>& notices) {
  std::vector<std::string> keys;
  for (const Assignment& assignment : preset) {
    const std::string_view key = assignment.key->name;
    const bool is_own = settings.origin(key).source == Source::file && !settings.is_default(key);
    if (is_own && key != "logical_axis_rules" && settings.value(key) != assignment.value) keys.emplace_back(key);
  }
  if (keys.empty()) return;
  notices.push_back(
      fmt::format("the file gives way to the model {} in {}; on the command line, beside override_model_config=true, they win",
                  shorten(name, 80), few_of(keys)));
}

// Absolute paths mean the same from another folder, where a checkpoint's settings may be read, and a folder's name is not taken for that of
// a model that MaxText knows.
void name_by_whole_paths(Settings& settings) {
  const auto name_by_whole_path = [&](const char* key, bool is_path) {
    if (is_path) settings.set(key, std::filesystem::absolute(settings.text(key)).lexically_normal().string(), settings.origin(key));
  };
  const std::string &model = settings.text("model_name"), &rules = settings.text("custom_mesh_and_rule");
  name_by_whole_path("model_name", model != "default" && (is_yaml_path(model) ? is_there(model) : is_hugging_face(model)));
  name_by_whole_path("custom_mesh_and_rule", is_yaml_path(rules) && is_there(rules));
  name_by_whole_path("tokenizer_path", !settings.text("tokenizer_path").empty() && is_there(settings.text("tokenizer_path")));
}

void check_environment(const Assignments& environment, const Assignments& overrides) {
  for (const Assignment& variable : environment) {
    if (last_of(overrides, variable.key->name) == nullptr) continue;
    refuse(fmt::format("{} is given by {} and on the command line", variable.key->name, variable.origin.where),
           kCommandLine, "unset one of them");
  }
}

// `key`: the key that names it.
Assignments read_rule_set(const std::string& name, const char* key, const std::string& where, std::vector<std::string>& notices) {
  const std::string path = "rules/" + name + ".yml";
  if (find_builtin(path) != nullptr) return assignments_of(parse_builtin(path), Source::rule_set);
  if (name.find('/') != std::string::npos || is_yaml_path(name) || is_there(name))
    return last_of_each(read_inherited(name, Source::rule_set, notices));
  const std::vector<std::string> names = builtin_names("rules");
  const std::vector<std::string> close = nearest(name, names, 1);
  refuse(fmt::format("unknown rule set '{}', one of {} or the path of a YAML file was expected", shorten(name, 80),
                     join(names, ", ")),
         where, close.empty() ? "" : fmt::format("{}={}", key, close.front()));
}

// The axis that shards the context under these rules: the first axis of the first rule for activation_length.
std::string context_axis(const std::vector<AxisRule>& rules) {
  for (const AxisRule& rule : rules) {
    if (rule.label == "activation_length") return rule.axes.empty() ? "" : rule.axes.front();
  }
  return "";
}

// A rule set that says nothing would run the default rules under its own name.
void check_rule_set(const Assignments& rule_set, const std::string& name, std::vector<std::string>& notices) {
  if (last_of(rule_set, "logical_axis_rules") != nullptr) return;
  if (last_of(rule_set, "mesh_axes") == nullptr) {
    refuse("the rule set holds neither mesh_axes nor logical_axis_rules", name,
           "`moesh help rules` lists rule sets to start from; leave custom_mesh_and_rule out for the default rules");
  }
  notices.push_back(fmt::format("the rule set {} holds no logical_axis_rules: the default rules stay", name));
}

void note_replaced_by_rule_set(const Settings& settings, const Assignment& assignment, const std::string& name,
                               std::vector<std::string>& notices) {
  const std::string_view key = assignment.key->name;
  if (!settings.is_by_user(key) || settings.value(key) == assignment.value) return;
  notices.push_back(fmt::format("{}: {} gives way to the rule set {}, which has its own", settings.origin(key).where, key, name));
}

void apply_rule_set(Settings& settings, std::vector<std::string>& notices) {
  const std::string name = settings.text("custom_mesh_and_rule");
  if (name.empty()) return;
  const Origin chosen = settings.origin("custom_mesh_and_rule");
  const Assignments rule_set = read_rule_set(name, "custom_mesh_and_rule", chosen.where, notices);
  check_rule_set(rule_set, name, notices);
  for (const Assignment& assignment : rule_set) {
    const std::string_view key = assignment.key->name;
    if (key == "context_sharding") continue;
    if (key != "mesh_axes" && key != "data_sharding" && key != "logical_axis_rules") {
      refuse(fmt::format("{} has no place in a rule set", key), assignment.origin.where,
             "a rule set holds mesh_axes, data_sharding, context_sharding and logical_axis_rules");
    }
    note_replaced_by_rule_set(settings, assignment, name, notices);
    settings.set(key, assignment.value, assignment.origin);
  }
  const std::string axis = context_axis(settings.rules("logical_axis_rules"));
  if (axis.empty() || axis == settings.text("context_sharding")) return;
  if (settings.is_given("context_sharding")) {
    notices.push_back(fmt::format("context_sharding={} gives way to the rule set {}, which lays the context on {}",
                                  settings.text("context_sharding"), name, axis));
  }
  settings.set("context_sharding", axis, {Source::rule_set, chosen.where});
}

void check_rule_set_for_eval(const Settings& settings) {
  const std::string& name = settings.text("custom_mesh_and_rule_for_eval");
  std::vector<std::string> untold;
  if (!name.empty()) read_rule_set(name, "custom_mesh_and_rule_for_eval", settings.origin("custom_mesh_and_rule_for_eval").where, untold);
}

// The default's -1 gives way to another one here.
void note_second_open_axis(const Settings& settings, std::vector<std::string>& notices) {
  for (const auto& [level, usual] : {std::pair("ici", "ici_fsdp_parallelism"), std::pair("dcn", "dcn_data_parallelism")}) {
    if (settings.is_given(usual) || settings.integer(usual) != -1) continue;
    for (const std::string& axis : settings.texts("mesh_axes")) {
      const std::string key = fmt::format("{}_{}_parallelism", level, axis);
      if (find_key(key) == nullptr || !settings.is_given(key) || settings.integer(key) != -1) continue;
      notices.push_back(fmt::format("{} is 1 beside {}=-1; MaxText refuses two axes of -1, and {} is one by default", usual, key, usual));
    }
  }
}

void note_accepted(const Settings& settings, std::vector<std::string>& notices) {
  std::vector<std::string> names;
  for (const Topic& topic : topics()) {
    for (const Key& key : topic.keys) {
      const bool is_new = settings.is_by_user(key.name) && !settings.is_default(key.name);
      if (key.status == Status::accepted && is_new) names.emplace_back(key.name);
    }
  }
  if (!names.empty()) notices.push_back("without effect here (`moesh help KEY` says why): " + few_of(names));
}

constexpr std::array<std::string_view, 9> kSizesOfAModel{"decoder_block",        "global_parameter_scale", "base_emb_dim",
                                                         "base_mlp_dim",         "base_moe_mlp_dim",       "base_num_decoder_layers",
                                                         "base_num_query_heads", "base_num_kv_heads",      "head_dim"};

ModelNaming::By naming_of(std::string_view key) {
  if (key == "model_name") return ModelNaming::By::model_name;
  const bool is_size = std::find(kSizesOfAModel.begin(), kSizesOfAModel.end(), key) != kSizesOfAModel.end();
  return is_size ? ModelNaming::By::sizes : ModelNaming::By::nothing;
}

}  // namespace

ModelNaming what_names_the_model(const std::vector<std::string>& arguments) {
  const CommandLine line = read_command_line(arguments);
  if (line.file) return {ModelNaming::By::file, *line.file};
  for (const Assignment& given : line.overrides) {
    const ModelNaming::By by = naming_of(given.key->name);
    if (by != ModelNaming::By::nothing) return {by, std::string(given.key->name)};
  }
  std::vector<std::string> untold;
  for (const Assignment& given : read_environment(untold)) {
    const ModelNaming::By by = naming_of(given.key->name);
    if (by != ModelNaming::By::nothing) return {by, given.origin.where};
  }
  return {};
}

Loaded load(const std::vector<std::string>& arguments) {
  Loaded loaded;
  Settings& settings = loaded.settings;
  const CommandLine line = read_command_line(arguments);
  const Assignments environment = read_environment(loaded.notices);
  check_environment(environment, line.overrides);

  assign_all(settings, assignments_of(parse_builtin("base.yml"), Source::base));
  const Assignments file = line.file ? read_own_file(*line.file, loaded.notices) : Assignments{};
  const Settings defaults = settings;
  assign_all(settings, file);
  // The preset's name may come from any source, so the strongest one is determined before the preset is read.
  Settings named = settings;
  assign_all(named, environment);
  assign_all(named, line.overrides);
  const bool has_rule_set = !named.text("custom_mesh_and_rule").empty();
  for (const Assignments* source : {&file, &environment, &line.overrides}) check_replacing_flag(*source, has_rule_set, loaded.notices);
  Assignments given = environment;
  given.insert(given.end(), line.overrides.begin(), line.overrides.end());
  if (const std::string note = note_of_replaced_rules(defaults, settings); !has_rule_set && !note.empty()) loaded.notices.push_back(note);
  const Assignments preset = read_preset(named, given, loaded.notices);
  note_replaced_by_preset(settings, preset, named.text("model_name"), loaded.notices);
  assign_all(settings, preset);
  assign_all(settings, environment);
  assign_all(settings, line.overrides);
  take_older_names(settings, loaded.notices);
  name_by_whole_paths(settings);

  apply_rule_set(settings, loaded.notices);
  check_rule_set_for_eval(settings);
  note_second_open_axis(settings, loaded.notices);
  arrange_for_pipeline(settings);
  answer_replaced_options(settings, loaded.notices);
  check_settings(settings);
  note_irrelevant(settings, loaded.notices);
  note_accepted(settings, loaded.notices);
  note_left_out(settings, loaded.notices);
  return loaded;
}

}  // namespace moesh::config
