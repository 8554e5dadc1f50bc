// Commands in tests/golden/foreign/ translate to the keys and notes recorded with them, and their models have the known size.
#include <filesystem>
#include <map>
#include <set>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "foreign/import.h"
#include "foreign/words.h"
#include "tests/paths.h"
#include "tests/support.h"
#include "train/model_size.h"

namespace moesh::foreign {
namespace {

namespace fs = std::filesystem;

struct Recorded {
  std::string name, program, command, keys, notes;
  std::vector<std::string> besides;
  std::string parameters;
};

// The text after "# WORD: " in a command.
std::string comment(const std::string& command, const std::string& word) {
  const std::string begin = "# " + word + ": ";
  const std::size_t at = command.find(begin);
  if (at == std::string::npos) return "";
  return command.substr(at + begin.size(), command.find('\n', at) - at - begin.size());
}

Recorded recorded(const fs::path& path) {
  const std::string text = test::read_text(path), line = "\n---\n";
  const std::size_t first = text.find(line), second = text.find(line, first + 1);
  Recorded made;
  made.name = path.stem().string();
  made.program = made.name.substr(0, made.name.find('-'));
  made.command = text.substr(0, first);
  made.keys = text.substr(first + line.size(), second - first - line.size());
  made.notes = text.substr(second + line.size());
  made.besides = test::words_of(comment(made.command, "besides"));
  made.parameters = comment(made.command, "parameters");
  return made;
}

std::vector<Recorded> all_recorded() {
  std::set<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(test::source_folder() / "tests/golden/foreign")) {
    if (entry.path().extension() == ".txt") paths.insert(entry.path());
  }
  std::vector<Recorded> all;
  for (const fs::path& path : paths) all.push_back(recorded(path));
  return all;
}

Imported imported_record(const Recorded& one) {
  const test::WorkingFolder top(test::source_folder());
  return from_program(one.program, one.command, one.besides);
}

std::vector<std::string> request_of(const Recorded& one) {
  std::vector<std::string> request = imported_record(one).keys;
  request.insert(request.end(), one.besides.begin(), one.besides.end());
  return request;
}

std::int64_t parameters_of(const std::vector<std::string>& request) {
  const session::Session session = session::open(request);
  return train::model_size(session.graph, session.shape, 1, 1).parameters;
}

TEST(ForeignRecorded, CommandsComeToTheseKeys) {
  const std::vector<Recorded> all = all_recorded();
  EXPECT_GE(all.size(), 18u);
  for (const Recorded& one : all) {
    SCOPED_TRACE(one.name);
    std::vector<std::string> expected;
    for (const ShellWord& word : shell_words(one.keys, one.name)) expected.push_back(word.text);
    EXPECT_EQ(join(imported_record(one).keys, "\n"), join(expected, "\n"));
  }
}

TEST(ForeignRecorded, WhatIsLeftOutOfThemIsTold) {
  for (const Recorded& one : all_recorded()) {
    SCOPED_TRACE(one.name);
    EXPECT_EQ(told(imported_record(one).notes), one.notes);
  }
}

TEST(ForeignRecorded, TheirModelsHaveTheKnownSize) {
  for (const Recorded& one : all_recorded()) {
    SCOPED_TRACE(one.name);
    const std::optional<std::int64_t> count = parse_integer(one.parameters);
    EXPECT_EQ(parameters_of(request_of(one)), count ? *count : parameters_of({"model_name=" + one.parameters}));
  }
}

// A key that the user adds wins over the imported one, so a command may be imported and then changed.
TEST(ForeignRecorded, KeysOfTheUsersOwnWin) {
  for (const Recorded& one : all_recorded()) {
    SCOPED_TRACE(one.name);
    Recorded changed = one;
    changed.besides.emplace_back("remat_policy=full");
    for (const std::string& key : imported_record(changed).keys) EXPECT_FALSE(key.starts_with("remat_policy="));
  }
}

}  // namespace
}  // namespace moesh::foreign
