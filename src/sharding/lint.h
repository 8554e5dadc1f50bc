// What is odd about a layout, as far as rules, sizes and the mesh tell: no step is planned for it.
#pragma once

#include <vector>

#include "sharding/finding.h"
#include "sharding/layout.h"

namespace moesh::sharding {

struct LintOptions {
  std::int64_t rows = 1;            // of one pass
  double tolerance = 0.02;          // sharding_tolerance
  bool tolerance_is_asked = false;  // then a run refuses what goes beyond it
  std::vector<std::string> sets{};  // other rule sets, to be tried where one may mend something
};

// Errors first, then warnings, then remarks; one for each cause.
std::vector<Finding> lint(const Layout& layout, const LintOptions& options);

}  // namespace moesh::sharding
