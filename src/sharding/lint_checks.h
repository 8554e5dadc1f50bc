// The checks of the linter, and the helpers that they share.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sharding/lint.h"

namespace moesh::sharding {

using Findings = std::vector<Finding>;

using RulesOfLabel = std::vector<std::vector<std::string>>;  // the axes of each rule of a label, in order
using Rules = std::map<std::string, RulesOfLabel>;
bool is_on_command_line(const config::AxisRule& rule);

// Checks of the rules as they are written.
void find_idle_rules(const Layout& layout, Findings& findings);
void find_absent_axes(const Layout& layout, Findings& findings);
void find_unruled_labels(const Layout& layout, Findings& findings);
void find_competing_dims(const Layout& layout, Findings& findings);
void find_blocked_by_one(const Layout& layout, Findings& findings);

// Checks of the sizes of dims and of the batch against those of the axes.
void find_uneven(const Layout& layout, const LintOptions& options, Findings& findings);
void find_small_batch(const Layout& layout, const LintOptions& options, Findings& findings);

// Checks of the axes and of what they shard.
void find_unused_axes(const Layout& layout, const LintOptions& options, Findings& findings);
void find_unspread(const Layout& layout, const LintOptions& options, Findings& findings);
void find_stages(const Layout& layout, Findings& findings);

// The input, parameters and activations.
std::vector<const LaidTensor*> all_tensors(const Layout& layout);

// The axes of these names that the mesh has, in this order; `expert` only if the model has some.
std::vector<AxisIndex> axes_to_try(const mesh::Mesh& mesh, std::initializer_list<std::string_view> names, bool with_experts);

// The settings that shrink axis `from` to `ici` devices within a slice and give the rest to axis `to`; none if that is not possible.
Keys moved(const mesh::Mesh& mesh, AxisIndex from, std::int64_t ici, AxisIndex to);

// The same for each axis in turn that may take the devices: those that shard a batch or weights.
std::vector<Keys> given_away(const Layout& layout, AxisIndex from, std::int64_t ici);

// The settings for each of these rule sets.
std::vector<Keys> other_sets(const std::vector<std::string>& sets);

// The setting that replaces the rules of these labels on the command line and keeps the other rules given there; none if the layout
// uses a rule set, whose rules cannot be replaced.
Keys with_rules(const Layout& layout, const Rules& rules);

// The settings that add the axis to the rules of all batch labels.
Keys with_batch_on(const Layout& layout, const std::string& axis);

RulesOfLabel rules_of(const Layout& layout, const std::string& label);

}  // namespace moesh::sharding
