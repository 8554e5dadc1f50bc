// What moesh does not do, in one place: values that are refused.
#pragma once

#include <string>
#include <vector>

#include "config/settings.h"

namespace moesh::config {

// Refuses a choice's word that is not supported here, and any value but the default for a key whose status is `refused`.
void check_supported(const Key& key, const Value& value, const std::string& where);

// Names the values that plans leave out.
void note_left_out(const Settings& settings, std::vector<std::string>& notices);

enum class Run {
  steps,     // on a given batch
  texts,     // that a trained model goes on with
  training,  // on data, with everything around it
};

// Refuses pipeline stages: no training step is made of them yet.
void check_stages(const Settings& settings);

// Refuses what commands that only plan accept but such a run cannot do: what they leave out, pipeline stages, quantization, a saved plan
// but for training, the unsupported values of keys of Scope::runs that it reads, and for training two states to begin with.
void check_run(const Settings& settings, Run run);

}  // namespace moesh::config
