// Translates requests of other programs into moesh's keys.
#pragma once

#include <string>
#include <vector>

#include "foreign/translation.h"

namespace moesh::foreign {

// `program`: megatron or torchtitan. `text`: its command as typed, or only its flags, or @FILE for a file that holds either; for torchtitan
// also the TOML file of a job. `own`: the keys that the user gives directly, which override the translation.
Imported from_program(const std::string& program, const std::string& text, const std::vector<std::string>& own);

// The key for the model of a Hugging Face folder or config.json.
Imported from_hugging_face(const std::string& path, const std::vector<std::string>& own);

}  // namespace moesh::foreign
