// What is odd about a layout: each finding with where, why it costs, and what mends it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/keys.h"

namespace moesh::sharding {

enum class Severity : std::uint8_t { error, warning, info };

using config::Keys;

// Keys that mend a finding when they are added to the request, as the planner says.
struct Fix {
  Keys keys;
  std::int64_t peak = 0;  // bytes of a device; 0: not planned
  std::int64_t usable = 0;
  double seconds = 0;     // of a step
  double faster = 0;      // how many times as many tokens a second and device as without it; 0: not known
};

// What a change has to bring for a finding to be worth telling.
enum class Gain : std::uint8_t { none, speed, memory, either };

// Adds what may mend something; keys that are none are left out.
void add_try(Keys keys, std::vector<Keys>& tries);
void add_tries(std::vector<Keys> more, std::vector<Keys>& tries);

struct Finding {
  Severity severity = Severity::warning;
  std::string check;  // "competing-dims", for scripts
  std::string about;  // what of the layout: with the check it knows a finding again in a changed layout
  std::string what;
  std::string where;
  std::string cost;
  std::string fix = {};          // in words, where no keys mend it
  std::vector<Keys> tries = {};  // that may mend it, the likeliest first
  Gain gain = Gain::none;        // that a fix must bring; where it has to bring one and none does, nothing is told
  std::vector<Fix> fixes = {};   // of the tries, those that were found to mend it, the fastest first
};

bool has_errors(const std::vector<Finding>& findings);
std::string to_text(const std::vector<Finding>& findings, int width = 0);  // of the terminal; 0: as wide as it gets
std::string to_json(const std::vector<Finding>& findings);
std::string list_json(const std::vector<Finding>& findings);  // the array alone
std::string_view name_of(Severity severity);

}  // namespace moesh::sharding
