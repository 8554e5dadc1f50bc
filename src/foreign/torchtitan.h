// Translates job files and flags of torchtitan.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foreign/flags.h"
#include "foreign/translation.h"
#include "foreign/words.h"

namespace moesh::foreign {

Imported from_torchtitan(const std::vector<ShellWord>& words, const std::vector<std::string>& own);

// The settings that from_torchtitan translates: for tests, and to suggest one for a misspelled name.
std::span<const std::string_view> translated_torchtitan_settings();

// The settings of a job's TOML file, by their full names: "training.seq_len".
std::vector<Flag> job_settings(const std::string& text, const std::string& where);

// The settings of a configuration that --module and --config name, as flags; nothing if it is not known.
std::optional<std::vector<Flag>> settings_of_configuration(std::string_view name);
std::vector<std::string> known_configurations();

// The preset that corresponds to a flavor of a model. An unknown flavor is refused with a list of the known ones.
std::string preset_of_flavor(const std::string& model, const std::string& flavor, const std::string& where);

}  // namespace moesh::foreign
