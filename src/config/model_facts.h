// What a model computes, in words that are equal where the numbers are: to tell whether two requests ask for the same
// model.
#pragma once

#include <map>
#include <string>

#include "config/settings.h"

namespace moesh::config {

// By name; what is left to the family, or follows from a model's name, is said as what it comes to.
std::map<std::string, std::string> model_facts(const Settings& settings);

// How rotated values are multiplied, and scores; as moesh does where nothing says otherwise.
double rotation_scale(const Settings& settings);
double score_scale(const Settings& settings);

}  // namespace moesh::config
