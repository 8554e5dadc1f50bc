// Keeps the sources in the designed structure: each folder includes only the folders that it may, files stay short, and headers
// say what they are for.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/paths.h"
#include "tests/support.h"

namespace moesh {
namespace {

const std::filesystem::path kSources = test::source_folder() / "src";

// The folders that each folder may include. A folder that is not listed may not exist, but for cli, which may include all.
const std::map<std::string, std::set<std::string>>& allowed() {
  static const std::map<std::string, std::set<std::string>> folders{
      {"base", {}},
      {"page", {}},
      {"tokenizer", {"base"}},
      {"config", {"base"}},
      {"mesh", {"base", "config"}},
      {"sharding", {"base", "config", "mesh"}},
      {"foreign", {"base", "config", "mesh", "sharding"}},
      {"graph", {"base", "mesh", "sharding"}},
      {"nn", {"base", "config", "sharding", "graph"}},
      {"models", {"base", "config", "mesh", "sharding", "graph", "nn"}},
      {"cost", {"base", "mesh", "sharding", "graph"}},
      {"partition", {"base", "config", "mesh", "sharding", "graph", "cost"}},
      {"plan", {"base", "mesh", "sharding", "graph"}},
      {"forecast", {"base", "page", "mesh", "sharding", "graph", "cost", "partition", "plan"}},
      {"backend", {"base", "config", "mesh", "graph"}},
      {"transport", {"base", "mesh", "sharding", "graph", "backend"}},
      {"store", {"base", "sharding", "backend"}},
      {"run", {"base", "mesh", "sharding", "graph", "plan", "backend", "transport", "store"}},
      {"measure", {"base", "mesh", "sharding", "graph", "plan", "forecast", "backend", "run"}},
      {"data", {"base", "tokenizer", "config", "store"}},
      {"session", {"base", "config", "mesh", "sharding", "graph", "nn", "models", "partition"}},
      {"train", {"base", "page", "tokenizer", "config",  "mesh",    "sharding",  "graph", "models",  "partition",
                 "plan", "forecast",  "measure", "backend", "transport", "store", "run", "data"}},
      {"decode",
       {"base", "tokenizer", "config", "mesh", "sharding", "graph", "models", "partition", "plan", "forecast", "backend", "store",
        "run", "session", "train"}},
      {"advice", {"base", "config", "mesh", "sharding", "graph", "partition", "plan", "cost", "forecast", "session", "train", "decode"}},
      {"search", {"base", "config", "forecast", "plan", "session", "advice"}},
      {"serve", {"base", "tokenizer", "decode"}},
  };
  return folders;
}

std::vector<std::filesystem::path> source_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kSources)) {
    const std::string ending = entry.path().extension().string();
    if (ending == ".h" || ending == ".cc") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string name_of(const std::filesystem::path& file) { return file.lexically_relative(kSources).string(); }

// Counts the characters of a line in UTF-8.
std::int64_t columns_of(const std::string& line) {
  return std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::vector<std::string> lines = split(test::read_text(file), '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

// Covers tests, benchmarks and fuzzers too, which not every build compiles.
TEST(Structure, WhatIsIncludedIsThere) {
  const std::filesystem::path root = test::source_folder();
  const std::regex include("^#include \"([^\"]+)\"");
  int seen = 0;
  for (const char* folder : {"src", "tests", "bench", "fuzz"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::filesystem::path& file = entry.path();
      if (file.extension() != ".h" && file.extension() != ".cc") continue;
      for (const std::string& line : lines_of(file)) {
        std::smatch found;
        if (!std::regex_search(line, found, include)) continue;
        const std::string path = found[1];
        const bool is_there = std::filesystem::exists(kSources / path) || std::filesystem::exists(root / path) ||
                              std::filesystem::exists(file.parent_path() / path);
        EXPECT_TRUE(is_there) << file << " includes " << path;
        ++seen;
      }
    }
  }
  EXPECT_GT(seen, 1000);
}

TEST(Structure, AFolderIncludesOnlyWhatTheDesignAllows) {
  const std::regex include("#include \"([^\"]+)\"");
  std::map<std::string, std::set<std::string>> unused = allowed();
  for (const std::filesystem::path& file : source_files()) {
    const std::string name = name_of(file);
    const std::string folder = name.substr(0, name.find('/'));
    const bool may_all = folder == "cli";
    ASSERT_TRUE(may_all || allowed().contains(folder)) << name << " lies in a folder that the design lacks";
    for (const std::string& line : lines_of(file)) {
      std::smatch found;
      if (!std::regex_search(line, found, include)) continue;
      const std::string path = found[1];
      const std::string other = path.substr(0, path.find('/'));
      EXPECT_NE(path.find('/'), std::string::npos) << name << " includes " << path << " without its folder";
      EXPECT_TRUE(std::filesystem::exists(kSources / path)) << name << " includes " << path;
      EXPECT_TRUE(may_all || other == folder || allowed().at(folder).contains(other)) << name << " includes " << path;
      unused[folder].erase(other);
    }
  }
  for (const auto& [folder, others] : unused) {
    for (const std::string& other : others) ADD_FAILURE() << folder << " includes nothing of " << other << ", and need not be allowed to";
  }
}

// The other headers of the CPU's kernels are their own, but for those that the machine's rates are measured with.
TEST(Structure, OfTheKernelsOfTheCpuOthersIncludeFewHeaders) {
  const std::set<std::string> shared{"draws.h", "isa.h", "row_loop.h", "simd.h"}, measured{"gemm.h", "micro_kernel.h"};
  const std::regex include("#include \"backend/cpu/([^\"]+)\"");
  std::set<std::string> unused = shared;
  for (const std::filesystem::path& file : source_files()) {
    const std::string name = name_of(file);
    if (name.starts_with("backend/")) continue;
    const std::string text = test::read_text(file);
    for (std::sregex_iterator found(text.begin(), text.end(), include), end; found != end; ++found) {
      const std::string header = (*found)[1];
      EXPECT_TRUE(shared.contains(header) || (name == "measure/rates.cc" && measured.contains(header))) << name << " includes " << header;
      unused.erase(header);
    }
  }
  EXPECT_TRUE(unused.empty()) << *unused.begin();
}

// The data of an empty value may be a null pointer, which memcpy does not allow, so whole values are copied only by base/bytes.h.
TEST(Structure, BytesOfValuesThatMayBeEmptyAreCopiedByOneFunction) {
  const std::regex call(R"(std::memcpy\(([^;]*);)");
  for (const std::filesystem::path& path : source_files()) {
    const std::string folder = std::filesystem::relative(path, kSources).begin()->string();
    if (folder != "run" && folder != "transport" && folder != "train") continue;
    const std::string text = test::read_text(path);
    for (std::sregex_iterator found(text.begin(), text.end(), call), end; found != end; ++found) {
      EXPECT_NE(found->str().find("sizeof"), std::string::npos) << path << ": " << found->str();
    }
  }
}

TEST(Structure, NoFileIsLongerThan500Lines) {
  for (const std::filesystem::path& file : source_files()) EXPECT_LE(lines_of(file).size(), 500u) << name_of(file);
}

TEST(Structure, NoLineIsLongerThan140Columns) {
  for (const std::filesystem::path& file : source_files()) {
    const std::vector<std::string> lines = lines_of(file);
    for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_LE(columns_of(lines[i]), 140) << name_of(file) << ":" << i + 1;
  }
}

// Two types of the same name in one namespace break the one-definition rule: the linker keeps the functions of only one of them.
TEST(Structure, ANameIsThatOfOneTypeInItsNamespace) {
  const std::regex space(R"(namespace ([\w:]+) \{)"), type(R"((?:struct|class|union|enum|enum class) (\w+)(?: final)?(?: : .*)? \{.*)");
  std::map<std::string, std::string> files;
  for (const std::filesystem::path& file : source_files()) {
    std::string within;
    bool is_private = false;
    for (const std::string& line : lines_of(file)) {
      std::smatch found;
      if (std::regex_match(line, found, space)) within = found[1];
      if (line == "namespace {") is_private = true;
      if (line == "}  // namespace") is_private = false;
      if (is_private || !std::regex_match(line, found, type)) continue;
      const auto [other, is_new] = files.emplace(within + "::" + found[1].str(), name_of(file));
      EXPECT_TRUE(is_new) << other->first << " of " << other->second << " is another one in " << name_of(file);
    }
  }
  EXPECT_GT(files.size(), 300u);
}

TEST(Structure, EveryHeaderBeginsWithASentenceOnWhatItIsFor) {
  for (const std::filesystem::path& file : source_files()) {
    if (file.extension() != ".h") continue;
    const std::vector<std::string> lines = lines_of(file);
    std::string comment;
    std::size_t at = 0;
    for (; at < lines.size() && lines[at].starts_with("//"); ++at) comment += lines[at].substr(2);
    EXPECT_GT(comment.size(), 10u) << name_of(file);
    EXPECT_TRUE(comment.ends_with('.')) << name_of(file) << ": " << comment;
    EXPECT_EQ(lines[at], "#pragma once") << name_of(file);
  }
}

// A header that compiles only after another one would make the order of includes matter, so each source file
// includes the header of the same name first.
TEST(Structure, ASourceIncludesItsOwnHeaderFirst) {
  for (const std::filesystem::path& file : source_files()) {
    std::filesystem::path header = file;
    header.replace_extension(".h");
    if (file.extension() != ".cc" || !std::filesystem::exists(header)) continue;
    const std::vector<std::string> lines = lines_of(file);
    const auto first =
        std::find_if(lines.begin(), lines.end(), [](const std::string& l) { return l.starts_with("#include"); });
    ASSERT_NE(first, lines.end()) << name_of(file);
    EXPECT_EQ(*first, "#include \"" + name_of(header) + "\"") << name_of(file);
  }
}

// With UBSan, GCC 12 evaluates the index in `(a ? x : y)[i]` in only one of the two branches.
TEST(Structure, NoArrayIsChosenWhereItIsIndexed) {
  const std::regex chosen(R"(\([^()]*\?[^()?]*:[^()]*\)\[)");
  for (const std::filesystem::path& file : source_files()) {
    for (const std::string& line : lines_of(file)) EXPECT_FALSE(std::regex_search(line, chosen)) << name_of(file) << ": " << line;
  }
}

// It must say "1 row", not "1 rows": counts that can be one are printed by counted(). Printed graphs and help texts
// of keys are exempt.
TEST(Structure, CountsThingsByOneHelper) {
  const std::regex plural(R"(\{[^}"]*\} (rows|tokens|steps|layers|experts)\b(?!/))");
  for (const std::filesystem::path& file : source_files()) {
    const std::string name = name_of(file);
    if (name == "graph/print.cc" || name.find("/schema_") != std::string::npos) continue;
    for (const std::string& line : lines_of(file)) EXPECT_FALSE(std::regex_search(line, plural)) << name << ": " << line;
  }
}

}  // namespace
}  // namespace moesh
