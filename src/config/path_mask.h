// Keys that hold regular expressions for the paths of parameters, such as adamw_mask.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"

namespace moesh::config {

class PathMask {
 public:
  // Refuses what is no regular expression.
  PathMask(const Settings& settings, std::string_view key);

  bool is_empty() const { return patterns_.empty(); }
  // Whether a pattern is found anywhere in the path, as in MaxText, where they are Python's.
  bool matches(const std::string& path) const;

 private:
  std::vector<std::shared_ptr<void>> patterns_;  // pcre2_code: its syntax holds Python's
};

}  // namespace moesh::config
