// Lints a layout by its rules, its sizes and the mesh, without planning a step.
#pragma once

#include <vector>

#include "sharding/finding.h"
#include "sharding/layout.h"

namespace moesh::sharding {

struct LintOptions {
  std::int64_t rows = 1;            // rows of the batch in one pass
  double tolerance = 0.02;          // sharding_tolerance
  bool tolerance_is_asked = false;  // the request gives it, so a run refuses a layout beyond it
  std::vector<std::string> sets{};  // other rule sets, to be tried where one may fix a finding
};

// The findings, one for each cause: errors first, then warnings, then remarks.
std::vector<Finding> lint(const Layout& layout, const LintOptions& options);

}  // namespace moesh::sharding
