#include "train/notes.h"

#include <set>

#include <fmt/core.h>

#include "base/log.h"
#include "base/text.h"
#include "config/hugging_face.h"
#include "config/load.h"
#include "tokenizer/tokenizer.h"
#include "train/remat.h"

namespace moesh::train {

constexpr std::string_view kSecret = "hf_access_token";

void print_config(const config::Settings& settings) {
  for (const config::Topic& topic : config::topics()) {
    for (const config::Key& key : topic.keys) {
      if (settings.is_by_user(key.name) && key.name != kSecret) {
        fmt::print("Config param {}: {}\n", key.name, config::to_string(settings.value(key.name)));
      }
    }
  }
}

void say_what_is_not_done(const config::Settings& settings) {
  std::set<std::string> names = offloaded_names(settings);
  if (settings.boolean("optimizer_memory_host_offload")) names.insert("moments");
  if (names.empty()) return;
  log_notice(fmt::format("{}: kept in memory, where all values are; nothing is moved elsewhere", join({names.begin(), names.end()}, ", ")));
}

void say_what_has_little_effect(const config::Settings& settings) {
  for (const std::string& words : {config::diluted_losses(settings), config::idle_indexer(settings)}) {
    if (!words.empty()) log_notice(words);
  }
}

void say_that_text_is_bytes(const config::Settings& settings) {
  const std::string& type = settings.text("dataset_type");
  if ((type != "text" && type != "jsonl") || !settings.text("tokenizer_path").empty() || settings.is_by_user("tokenizer_path")) return;
  for (const char* key : {"model_name", "load_parameters_path"}) {
    const std::string& model = settings.text(key);
    if (!config::is_hugging_face(model)) continue;
    const std::string folder = config::hugging_face_folder(model);
    if (!tokenizer::is_in(folder)) continue;
    return log_notice(fmt::format("text is read as bytes: tokenizer_path={} reads it by the tokenizer of the model's folder", folder));
  }
}

void say_what_stays_on_device(const config::Settings& settings) {
  const std::set<std::string> names = offloaded_names(settings);
  if (names.empty() || settings.boolean("scan_layers")) return;
  log_notice(fmt::format("{}: kept on the device; only scanned layers hand their values to the host (scan_layers=true)",
                         join({names.begin(), names.end()}, ", ")));
}

}  // namespace moesh::train
