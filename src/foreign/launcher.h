// What starts a program on many devices: torchrun, srun, and what stands before the script.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "foreign/words.h"

namespace moesh::foreign {

struct Launched {
  std::vector<std::string> words;       // of the program itself, up to the shell's next sign
  std::optional<std::int64_t> devices;  // nodes x processes of each, where both are said
};

Launched take_launcher(const std::vector<ShellWord>& words, const std::string& where);

}  // namespace moesh::foreign
