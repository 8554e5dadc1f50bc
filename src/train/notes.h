// What a run says before its first step.
#pragma once

#include "config/settings.h"

namespace moesh::train {

// The keys that are given, as the reference prints them, unless log_config is false; and what was asked for and is not
// done, though the steps are the same without it.
void say_what_is_asked(const config::Settings& settings);

}  // namespace moesh::train
