// Loads a request that is one line of text.
#pragma once

#include <string>

#include "base/text.h"
#include "config/load.h"
#include "tests/support.h"

namespace moesh::config {

inline Loaded loaded(const std::string& request) { return load(test::words_of(request)); }

inline Settings settings_of(const std::string& request) { return loaded(request).settings; }

inline std::string refusal(const std::string& request) {
  return test::message_of([&] { loaded(request); });
}

inline std::string rules_of(const Settings& settings, const std::string& label) {
  std::string text;
  for (const AxisRule& rule : settings.rules("logical_axis_rules")) {
    if (rule.label == label) text += "[" + join(rule.axes, ", ") + "]";
  }
  return text;
}

}  // namespace moesh::config
