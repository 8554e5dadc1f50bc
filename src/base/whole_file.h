// Files that are read and written as a whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/descriptor.h"

namespace moesh {

// Afterwards the file has these bytes; where that fails it is as it was before. Nobody sees a part of them: they are written
// beside it, and take its name when all are on the disk.
void replace_file(const std::string& path, std::string_view bytes, const std::string& fix);

// `what`: "the plan", for messages. Refuses what is no file.
Descriptor open_to_read(const std::string& path, const std::string& what, const std::string& fix);

// Refuses what has more than `most` bytes too.
std::string read_file(const std::string& path, const std::string& what, std::int64_t most, const std::string& fix);

}  // namespace moesh
