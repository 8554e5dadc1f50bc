// Durable files and folders: writes, syncs, renames and removes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/descriptor.h"

namespace moesh::store {

// A new file, opened for writing. All functions here fail with the reason that the system gives.
Descriptor create_file(const std::string& path);
void write_at(int file, const void* data, std::int64_t bytes, std::int64_t offset, const std::string& path);
// Starts writing these bytes out to the disk, so that it is not idle while more are made.
void begin_writing_out(int file, std::int64_t bytes, std::int64_t offset);
// What the disk of a folder has left for this user; nothing if the system cannot tell.
std::optional<std::int64_t> free_bytes(const std::string& folder);
// Reserves room, so that a full disk is noticed before anything is written. Does nothing if the file system cannot tell.
void ask_for_room(int file, std::int64_t bytes, const std::string& path);
void sync(int file, const std::string& path);
void sync_folder(const std::string& path);
void rename_path(const std::string& from, const std::string& to);
// Removes a folder with its contents, if it exists: index.json first, so that a folder that is left half removed is not taken for a
// checkpoint. Of a symbolic link, only the link is removed.
void remove_folder(const std::string& path);

}  // namespace moesh::store
