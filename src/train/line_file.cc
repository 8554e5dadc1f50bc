#include "train/line_file.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "base/system.h"

namespace moesh::train {
namespace {

constexpr const char* kFix = "choose base_output_directory or metrics_file";

// Refuses a disk, so that none is overwritten by mistake, and does not wait for a reader if the file is a pipe.
Descriptor open_for_lines(const std::string& path) {
  struct stat status {};
  const bool is_there = ::stat(path.c_str(), &status) == 0;
  if (is_there && S_ISBLK(status.st_mode)) refuse("a disk, a file was expected", path, kFix);
  const bool is_device = is_there && (S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode));
  const int how = is_device ? O_WRONLY | O_NONBLOCK | O_NOCTTY : O_RDWR | O_CREAT;
  Descriptor file(::open(path.c_str(), how | O_APPEND | O_CLOEXEC, 0666));
  if (!file.is_open()) fail("the file cannot be written: " + system_reason(), path, kFix);
  if (is_device) ::fcntl(file.number(), F_SETFL, O_APPEND);
  return file;
}

// Whether standard output or standard error goes to this file: appended lines and printed ones would overwrite each other.
bool is_printed_to(const struct stat& status) {
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat other {};
    if (::fstat(stream, &other) == 0 && other.st_dev == status.st_dev && other.st_ino == status.st_ino) return true;
  }
  return false;
}

off_t size_of(const Descriptor& file) {
  struct stat status {};
  ::fstat(file.number(), &status);
  return status.st_size;
}

bool is_removed(const Descriptor& file) {
  struct stat status {};
  return ::fstat(file.number(), &status) == 0 && status.st_nlink == 0;
}

// The offset after the last whole line.
off_t end_of_lines(const Descriptor& file) {
  std::vector<char> block(1 << 16);
  off_t end = size_of(file);
  while (end > 0) {
    const off_t begin = std::max<off_t>(0, end - static_cast<off_t>(block.size()));
    const ssize_t count = ::pread(file.number(), block.data(), static_cast<std::size_t>(end - begin), begin);
    if (count <= 0) return end;
    for (ssize_t i = count; i > 0; --i) {
      if (block[static_cast<std::size_t>(i - 1)] == '\n') return begin + i;
    }
    end = begin;
  }
  return 0;
}

bool begins_with(const Descriptor& file, std::string_view signature) {
  std::string found(signature.size(), '\0');
  const ssize_t count = ::pread(file.number(), found.data(), found.size(), 0);
  return count == static_cast<ssize_t>(signature.size()) && found == signature;
}

// A run keeps its lock. Who only looks whether a file is written, such as `moesh runs`, has one for an instant.
bool is_written_by_another(const Descriptor& file) {
  constexpr int kTries = 50;
  for (int tries = 0; tries < kTries; ++tries) {
    if (::flock(file.number(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace

LineFile::LineFile(std::string path, std::string_view signature) : path_(std::move(path)), file_(-1) {
  const auto parent = std::filesystem::path(path_).parent_path();
  if (!parent.empty()) make_folder(parent, kFix);
  struct stat status {};
  is_new_ = ::lstat(path_.c_str(), &status) != 0;
  file_ = open_for_lines(path_);
  ::fstat(file_.number(), &status);
  is_regular_ = S_ISREG(status.st_mode);
  has_name_ = status.st_nlink > 0;
  if (!is_regular_) return;
  if (is_printed_to(status)) refuse("the file is the one that the output goes to", path_, "name another file");
  take(signature);
}

LineFile::~LineFile() {
  if (is_new_ && size_of(file_) == 0) ::unlink(path_.c_str());
}

// The lock is released when the process ends, however it ends. If the file system has no locks, other runs are not noticed.
void LineFile::take(std::string_view signature) {
  if (is_written_by_another(file_)) {
    refuse("another run is writing this file", path_, "a run_name or a metrics_file of its own, or wait for its end");
  }
  const off_t size = size_of(file_);
  if (size == 0) return;
  if (!begins_with(file_, signature)) {
    refuse("the file holds something else than metrics of moesh, which is not overwritten", path_,
           "name another file, or remove this one");
  }
  const off_t end = end_of_lines(file_);
  had_lines_ = end > 0;
  if (end == size) return;
  log_notice(fmt::format("{}: the last line, which an earlier run did not finish, is removed", path_));
  if (::ftruncate(file_.number(), end) != 0) fail("the file cannot be written: " + system_reason(), path_, kFix);
}

void LineFile::append(std::string_view line) {
  if (has_name_ && is_removed(file_))
    fail("the metrics could not be written: the file has been removed", path_, "leave the folder of a run alone until it has ended");
  const std::string whole = std::string(line) + "\n";
  const off_t before = is_regular_ ? size_of(file_) : 0;
  for (std::size_t done = 0; done < whole.size();) {
    const ssize_t count = ::write(file_.number(), whole.data() + done, whole.size() - done);
    if (count >= 0) {
      done += static_cast<std::size_t>(count);
      continue;
    }
    if (errno == EINTR) continue;
    const std::string reason = system_reason();
    const bool is_whole = !is_regular_ || ::ftruncate(file_.number(), before) == 0;
    fail(fmt::format("the metrics could not be written: {}{}", reason, is_whole ? "" : "; the last line is cut short"),
         path_, "make room, or choose another metrics_file");
  }
}

}  // namespace moesh::train
