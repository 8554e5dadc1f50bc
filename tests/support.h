// What many tests need: errors as text, files that vanish, and sessions opened in process.
#pragma once

#include <atomic>
#include <filesystem>
#include <fstream>
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

// What the act's error says, or "no error".
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

// What a file of these values holds.
template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// A folder that is gone when the test ends. Its name has no letters by chance: they could spell what a test looks for in a text, as "inf".
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

// Goes to another folder while it lives.
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

// Sets an environment variable while it lives.
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

// "a=1 b=2" as the words of a command line; runs of blanks and "\\\n" divide.
inline std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    if (word != "\\") words.push_back(word);
  }
  return words;
}

inline session::Session session(const std::string& request) { return session::open(words_of(request)); }

// The parameter or activation with this path.
inline const sharding::LaidTensor& tensor_at(const std::vector<sharding::LaidTensor>& tensors,
                                             const std::string& path) {
  for (const sharding::LaidTensor& tensor : tensors) {
    if (tensor.path == path) return tensor;
  }
  throw std::runtime_error("no tensor " + path);
}

// Where it lies, without axes of size 1: "[fsdp, -]".
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
