// Separates the launcher (torchrun, srun, and whatever else precedes the script) from the words of the program that it starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "foreign/words.h"

namespace moesh::foreign {

struct Launched {
  std::vector<std::string> words;       // the program's own words, up to the next operator of the shell
  std::optional<std::int64_t> devices;  // number of devices, if the launcher's words tell it
};

Launched take_launcher(const std::vector<ShellWord>& words, const std::string& where);

}  // namespace moesh::foreign
