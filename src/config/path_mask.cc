#include "config/path_mask.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"

namespace moesh::config {

PathMask::PathMask(const Settings& settings, std::string_view key) {
  for (const std::string& pattern : settings.texts(key)) {
    try {
      patterns_.emplace_back(pattern);
    } catch (const std::regex_error&) {
      refuse(fmt::format("{} holds '{}', a regular expression was expected", key, pattern), settings.origin(key).where,
             fmt::format("{}=[bias, '.*norm.*']", key));
    }
  }
}

bool PathMask::matches(const std::string& path) const {
  return std::any_of(patterns_.begin(), patterns_.end(), [&](const std::regex& pattern) { return std::regex_search(path, pattern); });
}

}  // namespace moesh::config
