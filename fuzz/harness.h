// Helpers that all fuzzers share: which exceptions are fine, a file for readers that take a path, and access to the input's lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace moesh::fuzz {

// Runs `work`, which may end with a moesh::Error. Any other exception is passed on to the fuzzer.
template <typename Work>
void accept_errors(Work work) {
  try {
    work();
  } catch (const Error&) {
  }
}

// A temporary file that is overwritten for each input and removed at the end of its lifetime.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& ending)
      : path_(std::filesystem::temp_directory_path() /
              ("moesh_fuzz_" + std::to_string(::getpid()) + "_" + std::to_string(made_++) + ending)) {}
  ~ScratchFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  void write(std::string_view bytes) const {
    std::ofstream file(path_, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  std::string path() const { return path_.string(); }

 private:
  static inline int made_ = 0;
  std::filesystem::path path_;
};

inline std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

inline std::string_view after_first_line(std::string_view text) {
  const std::size_t end = text.find('\n');
  return end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
}

// Whether a word could name a file to read. Fuzzing is about the bytes of the input, not about this machine's files.
inline bool names_a_file(const std::string& word) {
  if (word.find('/') != std::string::npos) return true;
  const std::string value = word.substr(word.find('=') == std::string::npos ? 0 : word.find('=') + 1);
  std::error_code ignored;
  for (const std::string& name : {value, value.substr(0, value.rfind(':'))}) {
    if (!name.empty() && name.find('\0') == std::string::npos && std::filesystem::exists(name, ignored)) return true;
  }
  return false;
}

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace moesh::fuzz
