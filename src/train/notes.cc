#include "train/notes.h"

#include <fmt/core.h>

#include "base/log.h"
#include "base/text.h"
#include "config/model_shape.h"

namespace moesh::train {
namespace {

// Values that the backward pass is to find in the host's memory: here there is no other.
std::vector<std::string> offloaded(const config::Settings& settings) {
  const std::string& policy = settings.text("remat_policy");
  if (policy.ends_with("_offloaded")) return {"remat_policy=" + policy};
  std::vector<std::string> all;
  for (const std::string_view name : config::kSavedValues) {
    if (policy == "custom" && settings.text(name) == "offload") all.push_back(fmt::format("{}=offload", name));
  }
  return all;
}

}  // namespace

void print_config(const config::Settings& settings) {
  for (const config::Topic& topic : config::topics()) {
    for (const config::Key& key : topic.keys) {
      if (settings.is_by_user(key.name)) {
        fmt::print("Config param {}: {}\n", key.name, config::to_string(settings.value(key.name)));
      }
    }
  }
}

void say_what_is_not_done(const config::Settings& settings) {
  if (const std::vector<std::string> all = offloaded(settings); !all.empty()) {
    log_notice(fmt::format("{}: kept in memory, where all values are; nothing is moved elsewhere", join(all, ", ")));
  }
}

}  // namespace moesh::train
