// Which keys matter to which models and runs: a table of conditions, and the keys that need each of them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"

namespace moesh::config {

// Whether layers of several kinds follow each other in cycles, by lists of kinds or in families whose cycles have an interval.
bool has_cycles(const Settings& settings);

struct Need {
  std::string_view words;  // "decoder_block=deepseek", after "only with"
  bool (*is_met)(const Settings& settings);
  std::span<const std::string_view> keys;

  bool names(std::string_view key) const;
};

// A key may be listed under several needs, all of which must be met; the first that is not met is reported.
std::span<const Need> needs();

// The words of a need of this key that the settings do not meet; empty if all are met.
std::string_view unmet_need(const Settings& settings, std::string_view key);

// Adds one notice that names all keys that the user set and that have no effect with these settings.
void note_irrelevant(const Settings& settings, std::vector<std::string>& notices);

}  // namespace moesh::config
