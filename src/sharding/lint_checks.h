// The checks that a lint is made of, and what they share.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "sharding/lint.h"

namespace moesh::sharding {

using Findings = std::vector<Finding>;

using RulesOfLabel = std::vector<std::vector<std::string>>;  // the axes of each, in order
using Rules = std::map<std::string, RulesOfLabel>;
bool is_on_command_line(const config::AxisRule& rule);

// Rules as they are written in a file.
void find_idle_rules(const Layout& layout, Findings& findings);
void find_absent_axes(const Layout& layout, Findings& findings);
void find_unruled_labels(const Layout& layout, Findings& findings);
void find_competing_dims(const Layout& layout, Findings& findings);
void find_blocked_by_one(const Layout& layout, Findings& findings);

// Sizes of dims and of the batch beside those of axes.
void find_uneven(const Layout& layout, const LintOptions& options, Findings& findings);
void find_small_batch(const Layout& layout, const LintOptions& options, Findings& findings);

// Axes, and what lies on them.
void find_unused_axes(const Layout& layout, const LintOptions& options, Findings& findings);
void find_unspread(const Layout& layout, const LintOptions& options, Findings& findings);
void find_stages(const Layout& layout, Findings& findings);

// The input, parameters and activations.
std::vector<const LaidTensor*> all_tensors(const Layout& layout);

// The keys that give an axis `ici` devices within a slice and what that leaves to another one; none where that does not go.
Keys moved(const mesh::Mesh& mesh, AxisIndex from, std::int64_t ici, AxisIndex to);

// The axis at `ici` devices and the rest given to each of the others in turn that carry a batch or weights.
std::vector<Keys> given_away(const Layout& layout, AxisIndex from, std::int64_t ici);

// Each of these rule sets.
std::vector<Keys> other_sets(const std::vector<std::string>& sets);

// The rules of these labels replaced on the command line, beside what stands there already. Rules of a set cannot be: none.
Keys with_rules(const Layout& layout, const Rules& rules);

// The axis added to the rules of all labels of a batch.
Keys with_batch_on(const Layout& layout, const std::string& axis);

RulesOfLabel rules_of(const Layout& layout, const std::string& label);

// "a, b and 3 more".
std::string few_of(const std::vector<std::string>& words, std::size_t most = 5);

// Whether dims with the label are of rows.
bool is_batch(const std::string& label);

}  // namespace moesh::sharding
