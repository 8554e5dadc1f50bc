#include "config/support.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "config/pipeline.h"

namespace moesh::config {
namespace {

void check_choice(const Key& key, const Value& value, const std::string& where) {
  const auto* word = std::get_if<std::string>(&value);
  if (word == nullptr) return;
  const std::vector<Choice> all = choices(key);
  const auto found = std::find_if(all.begin(), all.end(), [&](const Choice& choice) { return choice.word == *word; });
  if (found == all.end() || !found->refused) return;
  const char* const data = key.name == "dataset_type" ? "dataset_type=jsonl for what the library of the data set exports (to_json); " : "";
  refuse(fmt::format("{}={} is not supported by moesh", key.name, *word), where,
         fmt::format("{}`moesh help {}` lists what is", data, key.name));
}

[[noreturn]] void refuse_value(const Key& key, const Value& value, const std::string& where) {
  refuse(fmt::format("{}={} asks for what moesh does not do ({})", key.name, to_string(value), key.help), where,
         fmt::format("leave {} at {}", key.name, key.initial.empty() ? "''" : key.initial));
}

template <typename Act>
void for_left_out(const Settings& settings, const Act& act) {
  for (const Topic& topic : topics()) {
    for (const Key& key : topic.keys) {
      if (key.status == Status::planned_without && !settings.is_default(key.name)) act(key);
    }
  }
}

}  // namespace

void check_stages(const Settings& settings) {
  if (!has_pipeline(settings)) return;
  const bool within = settings.integer("ici_pipeline_parallelism") > 1;
  refuse("pipeline stages are laid out (`shardings`, `lint`), but neither planned nor run yet",
         settings.origin(within ? "ici_pipeline_parallelism" : "dcn_pipeline_parallelism").where,
         "ici_pipeline_parallelism=1 dcn_pipeline_parallelism=1, and another axis for these devices");
}

void check_supported(const Key& key, const Value& value, const std::string& where) {
  if (key.status != Status::planned_without) check_choice(key, value, where);
  if (key.status == Status::refused && value != read_value(key, key.initial, where)) refuse_value(key, value, where);
}

void note_left_out(const Settings& settings, std::vector<std::string>& notices) {
  std::vector<std::string> words;
  for_left_out(settings, [&](const Key& key) {
    words.push_back(fmt::format("{}={} ({})", key.name, to_string(settings.value(key.name)), key.help));
  });
  if (!words.empty()) notices.push_back("planned without: " + join(words, "; "));
}

void check_run(const Settings& settings, Run run) {
  for_left_out(settings, [&](const Key& key) { refuse_value(key, settings.value(key.name), settings.origin(key.name).where); });
  for (const Topic& topic : topics()) {
    const bool is_read = run == Run::training || (run == Run::texts && topic.is_of_texts);
    if (!is_read || topic.scope == Scope::plans) continue;
    for (const Key& key : topic.keys) check_supported(key, settings.value(key.name), settings.origin(key.name).where);
  }
  check_stages(settings);
  if (!settings.text("quantization").empty()) {
    refuse(fmt::format("quantization={}: products in low precision are planned, but not run yet", settings.text("quantization")),
           settings.origin("quantization").where, "leave quantization at '', or `moesh compile` for what it would take");
  }
  if (run == Run::training && !settings.text("load_full_state_path").empty() && !settings.text("load_parameters_path").empty()) {
    refuse("load_full_state_path and load_parameters_path are both given", settings.origin("load_parameters_path").where,
           "give one of them");
  }
  if (run != Run::training && !settings.text("plan").empty()) {
    refuse("a saved plan is of a training step, and this run keeps more than that", settings.origin("plan").where, "leave plan away");
  }
}

}  // namespace moesh::config
