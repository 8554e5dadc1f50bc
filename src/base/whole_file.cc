#include "base/whole_file.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>

#include <fmt/core.h>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"

namespace moesh {
namespace {

[[noreturn]] void not_written(const std::string& path, const std::string& fix) {
  fail("the file cannot be written: " + system_reason(), path, fix);
}

// A file beside another, which is removed with this object unless it has been given the other's name.
class Beside {
 public:
  Beside(const std::string& path, const std::string& fix)
      : path_(fmt::format("{}.{}.part", path, ::getpid())),
        file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666)) {
    if (!file_.is_open()) not_written(path, fix);
  }
  ~Beside() {
    if (!is_named_) ::unlink(path_.c_str());
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

  bool write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t count = ::write(file_.number(), bytes.data(), bytes.size());
      if (count < 0 && errno != EINTR) return false;
      if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return ::fsync(file_.number()) == 0;
  }
  bool take_name(const std::string& path) {
    is_named_ = std::rename(path_.c_str(), path.c_str()) == 0;
    return is_named_;
  }

 private:
  std::string path_;
  Descriptor file_;
  bool is_named_ = false;
};

}  // namespace

void replace_file(const std::string& path, std::string_view bytes, const std::string& fix) {
  struct stat status {};
  const bool is_there = ::stat(path.c_str(), &status) == 0;
  if (is_there && !S_ISREG(status.st_mode)) refuse("something else than a file lies there", path, fix);
  // A symbolic link keeps pointing to the file.
  const std::string target = is_there ? std::filesystem::canonical(path).string() : path;
  Beside beside(target, fix);
  if (!beside.write(bytes) || !beside.take_name(target)) not_written(path, fix);
}

Descriptor open_to_read(const std::string& path, const std::string& what, const std::string& fix) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) refuse(fmt::format("{} cannot be read: {}", what, system_reason()), path, fix);
  struct stat status {};
  ::fstat(file.number(), &status);
  if (!S_ISREG(status.st_mode)) refuse(fmt::format("{} cannot be read: it is no file", what), path, fix);
  return file;
}

std::string read_file(const std::string& path, const std::string& what, std::int64_t most, const std::string& fix) {
  const Descriptor file = open_to_read(path, what, fix);
  struct stat status {};
  ::fstat(file.number(), &status);
  if (status.st_size > most)
    refuse(fmt::format("{} has {} bytes, at most {} are read", what, with_commas(status.st_size), with_commas(most)), path, fix);
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(file.number(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(fmt::format("{} cannot be read: {}", what, system_reason()), path, fix);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace moesh
