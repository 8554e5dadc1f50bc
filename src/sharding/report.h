// A layout as tables for people.
#pragma once

#include <string>
#include <vector>

#include "base/tree.h"
#include "sharding/layout.h"

namespace moesh::sharding {

struct ReportOptions {
  std::string filter;        // only tensors whose path or labels hold this; empty: all
  bool activations = false;  // list them too
  int width = 0;             // of the terminal; 0: as wide as it gets
};

// Parameters by component with totals, the optimizer's share, and what one device holds.
std::string report(const Layout& layout, const ReportOptions& options);

bool has_match(const Layout& layout, const std::string& filter);

// Refuses a filter that keeps nothing, with the nearest names.
void check_filter(const Layout& layout, const std::string& filter);

// The layout with those parameters, their moments and those activations alone that the filter keeps. What makes and uses an
// activation is left out.
Layout filtered(const Layout& layout, const std::string& filter);

// Lines for paths that stand below each other in a table: a tree on a terminal, whole paths in a pipe or a file.
std::vector<TreeLine> path_lines(const std::vector<std::string>& paths, int width);

// "(embed, layers, mlp)", "-" for a dim without a label.
std::string words_of(const Labels& labels);

std::string axis_names(const AxisList& axes, const mesh::Mesh& mesh);  // "fsdp=4 x expert=2", those of size 1 left out
std::string spec_words(const Spec& spec, const mesh::Mesh& mesh);      // "[(fsdp, expert), -]", likewise

bool matches(const LaidTensor& tensor, const std::string& filter);

}  // namespace moesh::sharding
