// What is odd about a layout: each finding with where, why it costs, and a fix to paste.
#pragma once

#include <string>
#include <vector>

#include "sharding/layout.h"

namespace moesh::sharding {

enum class Severity { error, warning, info };

struct Finding {
  Severity severity = Severity::warning;
  std::string check;  // "competing-dims", for scripts
  std::string what;
  std::string where;
  std::string cost;
  std::string fix;
};

struct LintOptions {
  std::int64_t rows = 1;  // of one pass
};

// Errors first, then warnings, then remarks.
std::vector<Finding> lint(const Layout& layout, const LintOptions& options);

bool has_errors(const std::vector<Finding>& findings);
std::string to_text(const std::vector<Finding>& findings, int width = 0);  // of the terminal; 0: as wide as it gets
std::string to_json(const std::vector<Finding>& findings);
std::string list_json(const std::vector<Finding>& findings);  // the array alone
std::string_view name_of(Severity severity);

}  // namespace moesh::sharding
