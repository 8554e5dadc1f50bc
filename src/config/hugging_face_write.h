// Writes the config.json by which Hugging Face's libraries recognise a model.
#pragma once

#include <string>

#include "config/settings.h"

namespace moesh::config {

// Refuses a model that such a file cannot describe, and says why. `dtype`: of the weights, such as "bfloat16".
std::string hugging_face_config_of(const Settings& settings, const std::string& dtype);

}  // namespace moesh::config
