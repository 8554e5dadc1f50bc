// Finds the command in a shell script. The script's variables and arrays are put in by text; nothing is run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moesh::foreign {

struct Script {
  std::string command;
  std::vector<std::string> assumed;  // what was taken for granted, for notes
};

// A text without a line that only assigns a variable is a command already, and is returned as it is.
Script read_script(std::string_view text, const std::string& where);

}  // namespace moesh::foreign
