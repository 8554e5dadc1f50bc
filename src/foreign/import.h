// Requests of other programs in moesh's keys.
#pragma once

#include <string>
#include <vector>

#include "foreign/translation.h"

namespace moesh::foreign {

// `program`: megatron or torchtitan. `text`: its command as it is typed, or flags alone; @FILE for a file with it; for torchtitan also a
// job's TOML file. `own`: what the user gives besides, which wins.
Imported from_program(const std::string& program, const std::string& text, const std::vector<std::string>& own);

// The model of a Hugging Face folder or config.json.
Imported from_hugging_face(const std::string& path, const std::vector<std::string>& own);

}  // namespace moesh::foreign
