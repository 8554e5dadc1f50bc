#include "sharding/finding.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/core.h>

#include "base/json.h"
#include "base/shell.h"
#include "base/terminal.h"
#include "base/text.h"

namespace moesh::sharding {
namespace {

Colour colour_of(Severity severity) {
  switch (severity) {
    case Severity::error: return Colour::red;
    case Severity::warning: return Colour::yellow;
    case Severity::info: return Colour::blue;
  }
  return Colour::blue;
}

std::string leads_to(const Fix& fix) {
  if (fix.peak == 0) return "   (laid out, not planned)";
  std::string words = fmt::format("{} a device, {} a step", human_bytes(fix.peak), human_seconds(fix.seconds));
  if (fix.faster > 0) words += fmt::format(", {:.2f} x the speed{}", fix.faster, fix.devices > 0 ? " of a device" : "");
  if (fix.devices > 0) words += fmt::format(", {} devices", with_commas(fix.devices));
  if (std::abs(fix.tokens - 1) > 0.01) words += fmt::format(", {:.3g} x the tokens a step", fix.tokens);
  if (fix.is_narrow) words += "; fits narrowly";
  if (fix.rounds) words += "; the losses differ";
  if (fix.holds_fix_above) words += "; with the fix above";
  if (fix.usable > 0 && fix.peak > fix.usable) words += fmt::format("; does not fit {}", human_bytes(fix.usable));
  return "   (" + words + ")";
}

std::string fix_lines(const Finding& f, int width) {
  std::string text;
  for (const Fix& fix : f.fixes)
    text += wrapped(fmt::format("  {} {}{}\n", text.empty() ? "fix:  " : "or:   ", shell_line(fix.keys), leads_to(fix)), width, 7);
  if (text.empty() && !f.fix.empty()) text = wrapped("  fix:   " + f.fix + "\n", width, 7);
  return text;
}

}  // namespace

void add_try(Keys keys, std::vector<Keys>& tries) {
  if (!keys.empty()) tries.push_back(std::move(keys));
}

void add_tries(std::vector<Keys> more, std::vector<Keys>& tries) {
  for (Keys& keys : more) add_try(std::move(keys), tries);
}

bool is_told_unused(const std::vector<Finding>& findings, Check check, const std::string& axis) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& f) {
    return f.check == check && std::find(f.unused_axes.begin(), f.unused_axes.end(), axis) != f.unused_axes.end();
  });
}

bool has_errors(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return f.severity == Severity::error; });
}

std::string_view name_of(Severity severity) {
  switch (severity) {
    case Severity::error: return "error";
    case Severity::warning: return "warning";
    case Severity::info: return "info";
  }
  return "?";
}

std::string_view name_of(Check check) {
  switch (check) {
    case Check::absent_axis: return "absent-axis";
    case Check::blocked_by_one: return "blocked-by-one";
    case Check::competing_dims: return "competing-dims";
    case Check::dearer_strategy: return "dearer-strategy";
    case Check::dense_experts: return "dense-experts";
    case Check::does_not_fit: return "does-not-fit";
    case Check::exposed_exchange: return "exposed-exchange";
    case Check::fits_narrowly: return "fits-narrowly";
    case Check::float32_products: return "float32-products";
    case Check::idle_rule: return "idle-rule";
    case Check::many_passes: return "many-passes";
    case Check::not_planned: return "not-planned";
    case Check::repeated_state: return "repeated-state";
    case Check::repeated_work: return "repeated-work";
    case Check::sharding_tolerance: return "sharding-tolerance";
    case Check::shared_tokens: return "shared-tokens";
    case Check::slow_link: return "slow-link";
    case Check::small_batch: return "small-batch";
    case Check::stages_not_run: return "stages-not-run";
    case Check::uneven: return "uneven";
    case Check::unruled_label: return "unruled-label";
    case Check::unused_axis: return "unused-axis";
    case Check::waits: return "waits";
    case Check::whole_weights: return "whole-weights";
  }
  return "?";
}

std::string to_text(const std::vector<Finding>& findings, int width) {
  if (findings.empty()) return "nothing odd.\n";
  std::string text;
  std::map<Severity, int> counts;
  for (const Finding& f : findings) {
    ++counts[f.severity];
    const std::string_view severity = name_of(f.severity);
    const std::string said = wrapped(fmt::format("{}: {} [{}]\n", severity, f.what, name_of(f.check)), width, 2);
    text += painted(severity, colour_of(f.severity), Stream::out) + said.substr(severity.size());
    text += wrapped(fmt::format("  where: {}\n  cost:  {}\n", f.where, f.cost), width, 7) + fix_lines(f, width);
  }
  return text + fmt::format("{}, {}, {}.\n", counted(counts[Severity::error], "error"),
                            counted(counts[Severity::warning], "warning"), counted(counts[Severity::info], "remark"));
}

namespace {

void write_fixes(const Finding& f, JsonWriter& json) {
  json.key("fixes").begin_array();
  for (const Fix& fix : f.fixes) {
    json.begin_object().key("keys").values(fix.keys);
    if (fix.peak > 0) json.key("peak_bytes_per_device").value(fix.peak).key("seconds_per_step").value(fix.seconds);
    if (fix.usable > 0) json.key("fits").value(fix.peak <= fix.usable);
    if (fix.usable > 0) json.key("fits_narrowly").value(fix.is_narrow);
    if (fix.faster > 0) json.key("speed").value(fix.faster);
    if (fix.devices > 0) json.key("devices").value(fix.devices);
    if (std::abs(fix.tokens - 1) > 0.01) json.key("times_the_tokens").value(fix.tokens);
    if (fix.rounds) json.key("rounds").value(true);
    if (fix.holds_fix_above) json.key("holds_fix_above").value(true);
    json.end_object();
  }
  json.end_array();
}

}  // namespace

std::string list_json(const std::vector<Finding>& findings) {
  JsonWriter json;
  json.begin_array();
  for (const Finding& f : findings) {
    json.line().begin_object().key("severity").value(name_of(f.severity)).key("check").value(name_of(f.check)).key("about").value(f.about);
    json.key("what").value(f.what).key("where").value(f.where).key("cost").value(f.cost);
    json.key("fix").value(f.fixes.empty() ? f.fix : shell_line(f.fixes.front().keys));
    write_fixes(f, json);
    json.end_object();
  }
  json.line().end_array();
  return json.text();
}

std::string to_json(const std::vector<Finding>& findings) {
  JsonWriter json;
  json.begin_object().key("findings").raw(list_json(findings)).line().end_object();
  return json.text() + "\n";
}

}  // namespace moesh::sharding
