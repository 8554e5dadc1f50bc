#include "store/disk.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fmt/core.h>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"

namespace moesh::store {
namespace {

[[noreturn]] void not_written(const std::string& what, const std::string& path, int error) {
  std::string fix = "look after the disk, or choose base_output_directory elsewhere";
  const auto room = error == ENOSPC || error == EDQUOT ? free_bytes(std::filesystem::path(path).parent_path()) : std::nullopt;
  if (room) {
    fix = fmt::format(
        "{} are free there: make room, write elsewhere (a run: base_output_directory) or, in a run, keep fewer checkpoints "
        "(max_num_checkpoints_to_keep)",
        human_bytes(*room));
  }
  fail(fmt::format("{}: {}", what, system_reason(error)), path, fix);
}

}  // namespace

std::optional<std::int64_t> free_bytes(const std::string& folder) {
  struct statvfs room {};
  if (::statvfs(folder.c_str(), &room) != 0) return std::nullopt;
  return static_cast<std::int64_t>(room.f_bavail * room.f_frsize);
}

Descriptor create_file(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file.is_open()) not_written("the file cannot be made", path, errno);
  return file;
}

void write_at(int file, const void* data, std::int64_t bytes, std::int64_t offset, const std::string& path) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::pwrite(file, from, static_cast<std::size_t>(bytes), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) not_written("the file cannot be written", path, count == 0 ? ENOSPC : errno);
    from += count;
    offset += count;
    bytes -= count;
  }
}

void begin_writing_out(int file, std::int64_t bytes, std::int64_t offset) { ::sync_file_range(file, offset, bytes, SYNC_FILE_RANGE_WRITE); }

void ask_for_room(int file, std::int64_t bytes, const std::string& path) {
  if (bytes == 0 || ::fallocate(file, 0, 0, bytes) == 0) return;
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) {
    not_written(fmt::format("there is no room for {}", human_bytes(bytes)), path, errno);
  }
}

void sync(int file, const std::string& path) {
  if (::fsync(file) != 0) not_written("the file does not reach the disk", path, errno);
}

void sync_folder(const std::string& path) {
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) not_written("the folder cannot be opened", path, errno);
  // Some file systems have nothing to sync for a folder, and return EINVAL.
  if (::fsync(folder.number()) != 0 && errno != EINVAL) not_written("the folder does not reach the disk", path, errno);
}

void rename_path(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) not_written("it cannot take the name " + to, from, errno);
}

void remove_folder(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) std::filesystem::remove(path + "/index.json", error);
  std::filesystem::remove_all(path, error);
  if (error) fail("the folder cannot be removed: " + error.message(), path, "remove it by hand");
}

}  // namespace moesh::store
