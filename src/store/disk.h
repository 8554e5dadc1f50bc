// Files and folders that stay on the disk once they are said to be there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/descriptor.h"

namespace moesh::store {

// A new file, opened to write. All of these fail with what the system says.
Descriptor create_file(const std::string& path);
void write_at(int file, const void* data, std::int64_t bytes, std::int64_t offset, const std::string& path);
// Lets the disk begin with what was written, so that it is not idle while more is made.
void begin_writing_out(int file, std::int64_t bytes, std::int64_t offset);
// Asks for room, so that a full disk is known before anything is written. Where a file system cannot say, nothing happens.
void ask_for_room(int file, std::int64_t bytes, const std::string& path);
void sync(int file, const std::string& path);
void sync_folder(const std::string& path);
void rename_path(const std::string& from, const std::string& to);
// A folder with all in it. An index goes first, so that what is left of it on the way is no checkpoint.
void remove_folder(const std::string& path);

}  // namespace moesh::store
