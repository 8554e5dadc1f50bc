// What a run says before its first step.
#pragma once

#include "config/settings.h"

namespace moesh::train {

// The keys that are given, as the reference prints them.
void print_config(const config::Settings& settings);

// Says what was asked for and is not done, though the steps are the same without it.
void say_what_is_not_done(const config::Settings& settings);

}  // namespace moesh::train
