// Values given to keys by files, the environment and the command line, before they become settings.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"
#include "config/yaml.h"

namespace moesh::config {

struct Assignment {
  const Key* key;
  Value value;
  Origin origin;
};
using Assignments = std::vector<Assignment>;

const Key& known_key(std::string_view name, const std::string& where);
Assignments assignments_of(const YamlNode& root, Source source);

const YamlNode& parse_builtin(const std::string& path);

// Reads the settings of a file and of the files that it inherits through base_config, ancestors first.
Assignments read_inherited(const std::string& path, Source source, std::vector<std::string>& notices);
// The same for the user's file. That of the built-in defaults need not be there.
Assignments read_own_file(const std::string& path, std::vector<std::string>& notices);

struct CommandLine {
  std::optional<std::string> file;
  Assignments overrides;
};
CommandLine read_command_line(const std::vector<std::string>& arguments);

// M_STEPS=5 is steps=5. As in MaxText, a variable that names no key is somebody else's; one that is nearly a key's name gets a notice.
Assignments read_environment(std::vector<std::string>& notices);

// Null if none is of that key.
const Assignment* last_of(const Assignments& all, std::string_view name);
// The last assignment of each key. Earlier ones come from files that are inherited.
Assignments last_of_each(const Assignments& all);

}  // namespace moesh::config
