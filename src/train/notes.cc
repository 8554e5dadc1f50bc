#include "train/notes.h"

#include <fmt/core.h>

#include "base/log.h"

namespace moesh::train {
namespace {

bool is_by_user(const config::Settings& settings, std::string_view key) {
  using config::Source;
  const Source source = settings.origin(key).source;
  return source == Source::file || source == Source::environment || source == Source::command_line;
}

void print_config(const config::Settings& settings) {
  for (const config::Topic& topic : config::topics()) {
    for (const config::Key& key : topic.keys) {
      if (is_by_user(settings, key.name)) {
        fmt::print("Config param {}: {}\n", key.name, config::to_string(settings.value(key.name)));
      }
    }
  }
}

}  // namespace

void say_what_is_asked(const config::Settings& settings) {
  if (settings.boolean("log_config")) print_config(settings);
  if (settings.boolean("enable_checkpointing")) {
    log_notice(
        "no checkpoint is written, which moesh does not do yet; enable_checkpointing=false leaves this note out");
  }
}

}  // namespace moesh::train
