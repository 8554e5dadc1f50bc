// What a run prints before its first step.
#pragma once

#include "config/settings.h"

namespace moesh::train {

// Prints the keys that the user gave, as the reference does.
void print_config(const config::Settings& settings);

// Names what was asked for but is not done; the steps are the same without it.
void say_what_is_not_done(const config::Settings& settings);

// Names losses beside the entropy that hardly train, and an indexer that leaves nothing out.
void say_what_has_little_effect(const config::Settings& settings);

// Says that text is read as bytes although the folder that the model comes from has a tokenizer.
void say_that_text_is_bytes(const config::Settings& settings);

// For a plan: names the values that are to wait in the host's memory, but stay on the device.
void say_what_stays_on_device(const config::Settings& settings);

}  // namespace moesh::train
