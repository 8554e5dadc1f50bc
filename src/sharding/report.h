// A layout as tables for people.
#pragma once

#include <string>

#include "sharding/layout.h"

namespace moesh::sharding {

struct ReportOptions {
  std::string filter;        // only tensors whose path or labels hold this; empty: all
  bool activations = false;  // list them too
  int width = 0;             // of the terminal; 0: as wide as it gets
};

// Parameters by component with totals, the optimizer's share, and what one device holds.
std::string report(const Layout& layout, const ReportOptions& options);

// "(embed, layers, mlp)", "-" for a dim without a label.
std::string words_of(const Labels& labels);

bool matches(const LaidTensor& tensor, const std::string& filter);

}  // namespace moesh::sharding
