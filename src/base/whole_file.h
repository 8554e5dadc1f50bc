// Files that are read and written as a whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/descriptor.h"

namespace moesh {

// Replaces the contents of a file, which stays as it was if that fails. No reader sees a part of the new bytes: they are written to a file
// beside it, which takes its name when all are on the disk.
void replace_file(const std::string& path, std::string_view bytes, const std::string& fix);

// `what`: "the plan", for messages. Refuses a path that is not a regular file.
Descriptor open_to_read(const std::string& path, const std::string& what, const std::string& fix);

// Also refuses a file of more than `most` bytes.
std::string read_file(const std::string& path, const std::string& what, std::int64_t most, const std::string& fix);

}  // namespace moesh
