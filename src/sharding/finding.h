// Lint findings: what is odd about a layout, with where it is, what it costs, and what would fix it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/keys.h"

namespace moesh::sharding {

enum class Severity : std::uint8_t { error, warning, info };

// What a finding is of.
enum class Check : std::uint8_t {
  absent_axis,
  blocked_by_one,
  competing_dims,
  dearer_strategy,
  dense_experts,
  does_not_fit,
  exposed_exchange,
  fits_narrowly,
  float32_products,
  idle_rule,
  many_passes,
  not_planned,
  repeated_state,
  repeated_work,
  sharding_tolerance,
  shared_tokens,
  slow_link,
  small_batch,
  stages_not_run,
  uneven,
  unruled_label,
  unused_axis,
  waits,
  whole_weights,
};

using config::Keys;

// Settings that fix a finding if they are added to the request, with the planner's figures for them.
struct Fix {
  Keys keys;
  std::int64_t peak = 0;  // peak bytes per device; 0: not planned
  std::int64_t usable = 0;
  double seconds = 0;     // per step
  double faster = 0;      // tokens per second and device, relative to those without the fix; 0: not known
  std::int64_t devices = 0;  // if other than without the fix
  double tokens = 1;         // per step, relative to those without the fix
  bool is_narrow = false;    // fits, but XLA's step would not
  bool rounds = false;       // keeps weights or moments in another type, so that the losses differ
  bool holds_fix_above = false;  // the keys of a fix of an earlier finding, without which nothing can be planned, are among these
};

// The gain that a fix must bring for its finding to be reported.
enum class Gain : std::uint8_t { none, speed, much_speed, memory, either };

// Adds settings that may fix a finding; empty ones are left out.
void add_try(Keys keys, std::vector<Keys>& tries);
void add_tries(std::vector<Keys> more, std::vector<Keys>& tries);

struct Finding {
  Severity severity = Severity::warning;
  Check check = Check::uneven;
  std::string about;  // the part of the layout that it is about; with `check` it identifies the finding in a changed layout
  std::string what;
  std::string where;
  std::string cost;
  std::string fix = {};          // in words, if no settings fix it
  std::vector<Keys> tries = {};  // settings that may fix it, the likeliest first
  Gain gain = Gain::none;        // the gain that a fix must bring; if one is required and no fix brings it, the finding is dropped,
                                 // unless it `stays`
  bool stays = false;            // as a remark, if a gain is required and no fix brings it
  std::vector<Fix> fixes = {};   // the tries that were found to fix it, the fastest first
  std::vector<std::string> unused_axes = {};  // the axes that nothing, or some of the parameters, leave out
};

// Whether a finding of that check says that the axis is left out.
bool is_told_unused(const std::vector<Finding>& findings, Check check, const std::string& axis);

bool has_errors(const std::vector<Finding>& findings);
std::string to_text(const std::vector<Finding>& findings, int width = 0);  // `width` of the terminal; 0: unlimited
std::string to_json(const std::vector<Finding>& findings);
std::string list_json(const std::vector<Finding>& findings);  // the array alone
std::string_view name_of(Severity severity);
std::string_view name_of(Check check);  // "competing-dims", for scripts

}  // namespace moesh::sharding
