// What a model computes, in words that are equal if the numbers are: used to tell whether two requests ask for the same model.
#pragma once

#include <map>
#include <string>

#include "config/settings.h"

namespace moesh::config {

// By name. A value that is left to the family, or follows from a model's name, is given as what it comes to.
std::map<std::string, std::string> model_facts(const Settings& settings);

// The factors of rotated values and of scores: those that are given, otherwise moesh's own.
double rotation_scale(const Settings& settings);
double score_scale(const Settings& settings);

}  // namespace moesh::config
