// Job files and flags of torchtitan, translated.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foreign/flags.h"
#include "foreign/translation.h"
#include "foreign/words.h"

namespace moesh::foreign {

Imported from_torchtitan(const std::vector<ShellWord>& words, const std::vector<std::string>& own);

// A job's settings by their whole names: "training.seq_len".
std::vector<Flag> job_settings(const std::string& text, const std::string& where);

// What a configuration of --module and --config sets, as flags; nothing for one that is not known.
std::optional<std::vector<Flag>> settings_of_configuration(std::string_view name);
std::vector<std::string> known_configurations();

// The preset that is a flavor of a model; refused with those that there are.
std::string preset_of_flavor(const std::string& model, const std::string& flavor, const std::string& where);

}  // namespace moesh::foreign
