// A layout as tables of text.
#pragma once

#include <string>
#include <vector>

#include "base/tree.h"
#include "sharding/layout.h"

namespace moesh::sharding {

struct ReportOptions {
  std::string filter;        // only tensors whose path contains this or that have it as a label; empty: all
  bool activations = false;  // list activations too
  int width = 0;             // of the terminal; 0: unlimited
  bool has_moments_on_host = false;  // the optimizer's moments wait in the host's memory
};

// The parameters by component with totals, the bytes of optimizer state, and the bytes that one device holds.
std::string report(const Layout& layout, const ReportOptions& options);

bool has_match(const Layout& layout, const std::string& filter);

// Refuses a filter that matches nothing, and names the nearest matches.
void check_filter(const Layout& layout, const std::string& filter);

// The layout with only those parameters, their moments and those activations that match the filter. The sources and users of
// activations are cleared.
Layout filtered(const Layout& layout, const std::string& filter);

// Table lines for paths: a tree on a terminal, whole paths in a pipe or a file (width 0).
std::vector<TreeLine> path_lines(const std::vector<std::string>& paths, int width);

// "embed, layers, mlp", "-" for a dim without a label.
std::string words_of(const Labels& labels);

std::string axis_names(const AxisList& axes, const mesh::Mesh& mesh);  // "fsdp=4 x expert=2", without axes of size 1
std::string spec_words(const Spec& spec, const mesh::Mesh& mesh);      // "[(fsdp, expert), -]", without axes of size 1

}  // namespace moesh::sharding
