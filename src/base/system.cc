#include "base/system.h"

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <system_error>

#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

namespace moesh {

std::string system_reason() { return system_reason(errno); }
std::string system_reason(int number) { return std::generic_category().message(number); }

std::string host_name() {
  std::string name(256, '\0');
  ::gethostname(name.data(), name.size() - 1);
  name.resize(name.find('\0'));
  return name;
}

std::string local_time(const char* format) {
  char text[64];
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  return {text, std::strftime(text, sizeof text, format, localtime_r(&now, &local))};
}

std::string local_time() { return local_time("%Y-%m-%dT%H:%M:%S%z"); }

bool is_there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

void make_folder(const std::string& path, std::string_view fix) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail("the folder cannot be made: " + error.message(), path, std::string(fix));
}

// mkdir succeeds for one process only.
std::string make_new_folder(const std::function<std::string(int)>& name, std::string_view fix) {
  for (int i = 1;; ++i) {
    const std::string path = name(i);
    if (::mkdir(path.c_str(), 0777) == 0) return path;
    if (errno != EEXIST) fail("the folder cannot be made: " + system_reason(), path, std::string(fix));
  }
}

}  // namespace moesh
