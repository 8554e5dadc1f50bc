// Helpers for many tests: errors as text, temporary files, and sessions opened in process.
#pragma once

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "session/session.h"

namespace moesh::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

// The message of the error that the act throws, or "no error".
template <typename Act>
std::string message_of(Act act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The bytes of a file that holds these values.
template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// A folder that is removed when the test ends. Its name has no random letters, which could spell a text that a test looks for, like "inf".
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static std::atomic<int> made{0};
    do {
      path_ = std::filesystem::temp_directory_path() / ("moesh_test_" + std::to_string(::getpid()) + "_" + std::to_string(made++));
    } while (!std::filesystem::create_directory(path_));
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path() const { return path_.string(); }

  // Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

// Changes the working directory while this object lives.
class WorkingFolder {
 public:
  explicit WorkingFolder(const std::filesystem::path& folder) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  ~WorkingFolder() { std::filesystem::current_path(before_); }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;

 private:
  std::filesystem::path before_;
};

// Makes the process an unprivileged user during the object's lifetime: another user if it runs as root, otherwise the same one.
class AnotherUser {
 public:
  AnotherUser() {
    if (is_root_ && ::seteuid(65534) != 0) throw std::runtime_error("root cannot become another user");
  }
  ~AnotherUser() {
    if (is_root_ && ::seteuid(0) != 0) std::abort();
  }
  AnotherUser(const AnotherUser&) = delete;
  AnotherUser& operator=(const AnotherUser&) = delete;

 private:
  const bool is_root_ = ::geteuid() == 0;
};

// Sets an environment variable while this object lives.
class Variable {
 public:
  Variable(std::string name, const std::string& value) : name_(std::move(name)) {
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ~Variable() { ::unsetenv(name_.c_str()); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  std::string name_;
};

// Splits "a=1 b=2" into the words of a command line, at runs of blanks and at "\\\n".
inline std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    if (word != "\\") words.push_back(word);
  }
  return words;
}

inline session::Session session(const std::string& request) { return session::open(words_of(request)); }
// Why a request is not opened, or "no error".
inline std::string refusal_of(const std::string& request) {
  return message_of([&] { session(request); });
}

// The parameter or activation with this path.
inline const sharding::LaidTensor& tensor_at(const std::vector<sharding::LaidTensor>& tensors,
                                             const std::string& path) {
  for (const sharding::LaidTensor& tensor : tensors) {
    if (tensor.path == path) return tensor;
  }
  throw std::runtime_error("no tensor " + path);
}

// A path that two tensors of a layout have; "" if there is none.
inline std::string path_of_two(const sharding::Layout& layout) {
  std::set<std::string> paths;
  for (const auto* tensors : {&layout.parameters, &layout.activations, &layout.states}) {
    for (const sharding::LaidTensor& tensor : *tensors) {
      if (!paths.insert(tensor.path).second) return tensor.path;
    }
  }
  return "";
}

// Its sharding without mesh axes of size 1, such as "[fsdp, -]".
inline std::string lies(const sharding::Layout& layout, const sharding::LaidTensor& tensor) {
  return sharding::to_string(sharding::without_size_one(tensor.spec, layout.mesh), layout.mesh);
}

inline mesh::Mesh mesh_of(const std::vector<std::pair<std::string, std::int64_t>>& sizes) {
  std::vector<mesh::Axis> axes;
  for (const auto& [name, size] : sizes) axes.push_back({name, size, 1});
  return mesh::Mesh(axes);
}

inline config::AxisRule rule(const std::string& label, const std::vector<std::string>& axes,
                             const std::string& where = "rules.yml:1") {
  return {label, axes, where};
}

}  // namespace moesh::test
