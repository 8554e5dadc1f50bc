// What moesh does not do, answered in one place: values that are refused.
#pragma once

#include <string>

#include "config/settings.h"

namespace moesh::config {

// Refuses a word of a choice that is not done here, and any value but the default of a key that is refused.
void check_supported(const Key& key, const Value& value, const std::string& where);

enum class Run {
  steps,     // on a batch that is there
  training,  // on data, with all that goes with it
};

// Refuses pipeline stages: no training step is made of them yet.
void check_stages(const Settings& settings);

// What commands that plan take as it is, and such a run cannot do: pipeline stages, and for training the keys of
// Scope::runs.
void check_run(const Settings& settings, Run run);

}  // namespace moesh::config
