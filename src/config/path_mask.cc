#include "config/path_mask.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"
#include "base/pcre.h"

namespace moesh::config {
namespace {

bool is_found(const pcre2_code* code, const std::string& path) {
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(pcre2_match_data_create_from_pattern(code, nullptr),
                                                                                 pcre2_match_data_free);
  const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(path.data()), path.size(), 0, 0, data.get(), nullptr);
  if (found < 0 && found != PCRE2_ERROR_NOMATCH) refuse(fmt::format("a regular expression gave up: {}", pcre_message(found)), path);
  return found >= 0;
}

}  // namespace

PathMask::PathMask(const Settings& settings, std::string_view key) {
  for (const std::string& pattern : settings.texts(key)) {
    std::string why;
    patterns_.push_back(compile_pattern(pattern, 0, why));
    if (patterns_.back() == nullptr) {
      refuse(fmt::format("{} holds '{}', a regular expression was expected: {}", key, pattern, why), settings.origin(key).where,
             fmt::format("{}=[bias, '.*norm.*']", key));
    }
  }
}

bool PathMask::matches(const std::string& path) const {
  return std::any_of(patterns_.begin(), patterns_.end(), [&](const std::shared_ptr<void>& pattern) {
    return is_found(static_cast<const pcre2_code*>(pattern.get()), path);
  });
}

}  // namespace moesh::config
