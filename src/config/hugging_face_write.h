// Writes the config.json by which Hugging Face's libraries know a model.
#pragma once

#include <string>

#include "config/settings.h"

namespace moesh::config {

// Refuses a model that such a file cannot tell of, naming what it is. `dtype`: of the weights, "bfloat16".
std::string hugging_face_config_of(const Settings& settings, const std::string& dtype);

}  // namespace moesh::config
