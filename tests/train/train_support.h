// Helpers for tests of training: commands run in process, tensor files to create and change, and copies of recorded runs.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/outcome.h"
#include "tests/recorded.h"
#include "tests/store/safetensors_support.h"

namespace moesh::test {

using cli::Outcome;
using cli::outcome_of;

inline Outcome train_with(const std::string& request) { return outcome_of(words_of("train " + request)); }

// The objects of a JSON Lines file, which must end with a complete line.
inline std::vector<nlohmann::json> json_lines_in(const std::string& path) {
  std::vector<nlohmann::json> all;
  std::vector<std::string> lines = split(read_text(path), '\n');
  EXPECT_EQ(lines.back(), "") << "a last line that is not whole";
  lines.pop_back();
  for (const std::string& line : lines) all.push_back(nlohmann::json::parse(line));
  return all;
}

// The step lines of all runs that wrote a metrics file.
inline std::vector<nlohmann::json> metrics_in(const std::string& path) {
  std::vector<nlohmann::json> steps = json_lines_in(path);
  std::erase_if(steps, [](const nlohmann::json& line) { return line.contains("run"); });
  return steps;
}

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// The parts of a safetensors file, which can be changed and put together again.
struct SafetensorsParts {
  nlohmann::json header;
  std::string data;

  explicit SafetensorsParts(const std::string& bytes) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    header = nlohmann::json::parse(bytes.substr(sizeof length, length));
    data = bytes.substr(sizeof length + length);
  }
  float* floats(const std::string& tensor) {
    return reinterpret_cast<float*>(data.data() + header.at(tensor)["data_offsets"][0].get<std::size_t>());
  }
  std::size_t count(const std::string& tensor) const {
    const nlohmann::json& offsets = header.at(tensor)["data_offsets"];
    return (offsets[1].get<std::size_t>() - offsets[0].get<std::size_t>()) / sizeof(float);
  }
  // Without the numbers of tensors that were taken out.
  std::string bytes() const {
    nlohmann::json packed = header;
    std::string of_tensors;
    for (auto& [name, entry] : packed.items()) {
      if (name == "__metadata__") continue;
      nlohmann::json& offsets = entry["data_offsets"];
      const auto begin = offsets[0].get<std::size_t>(), size = offsets[1].get<std::size_t>() - begin;
      offsets = {of_tensors.size(), of_tensors.size() + size};
      of_tensors += data.substr(begin, size);
    }
    return safetensors(packed.dump(), of_tensors);
  }
};


// A copy of a recorded run that may be changed; it has its own copy of the parameters.
class RunCopy {
 public:
  explicit RunCopy(const std::string& name) : path_(std::filesystem::path(folder_.path()) / name) {
    std::filesystem::copy(kRecordedRuns / name, path_);
    const auto config = nlohmann::json::parse(read_text(path_ / "config.json"));
    const auto from = kRecordedRuns / config["params_from"].get<std::string>() / "params.safetensors";
    if (!std::filesystem::exists(path_ / "params.safetensors"))
      std::filesystem::copy(from, path_ / "params.safetensors");
  }

  std::string path() const { return path_.string(); }

  template <typename Change>
  void change_tensors(const std::string& file, Change change) const {
    SafetensorsParts parts(read_text(path_ / file));
    change(parts);
    write_file(path_ / file, parts.bytes());
  }

  template <typename Change>
  void change_json(const std::string& file, Change change) const {
    auto json = nlohmann::json::parse(read_text(path_ / file));
    change(json);
    write_file(path_ / file, json.dump());
  }

 private:
  TemporaryFolder folder_;
  std::filesystem::path path_;
};

}  // namespace moesh::test
