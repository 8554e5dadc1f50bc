// Checks that the commands in README print what README says they print.
#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "foreign/words.h"
#include "tests/cli/outcome.h"
#include "tests/paths.h"
#include "tests/support.h"

namespace moesh::cli {
namespace {

// A planning command, and the lines that README shows of its output. They may be abridged, with or without "...".
struct Shown {
  std::string command;
  std::vector<std::string> lines;
};

bool is_code(const std::string& line) { return line.starts_with("    "); }

// Finds the code blocks that begin with such a command. Its output is the rest of the block, and the next
// block too if the text between begins with "prints".
std::vector<Shown> shown_in(const std::vector<std::string>& text) {
  const std::regex plans(R"(    \./moesh (shardings|compile|lint) .*)");
  std::vector<Shown> all;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!std::regex_match(text[i], plans)) continue;
    Shown one{text[i], {}};
    for (; text[i].ends_with('\\'); ++i) one.command = one.command.substr(0, one.command.size() - 1) + text[i + 1];
    const auto take_block = [&] {
      for (++i; i < text.size() && (text[i].empty() || is_code(text[i])); ++i) {
        if (!text[i].empty() && !text[i].starts_with("    ./moesh ")) one.lines.push_back(text[i]);
      }
    };
    take_block();
    if (i < text.size() && text[i].starts_with("prints")) take_block();
    if (!one.lines.empty() && one.command.find(" ... ") == std::string::npos) all.push_back(one);
    --i;
  }
  return all;
}

std::string with_single_spaces(const std::string& text) { return std::regex_replace(text, std::regex(R"(\s+)"), " "); }

TEST(Readme, ShowsWhatItsCommandsPrint) {
  const test::Variable width("COLUMNS", "120");
  const test::WorkingFolder top(test::source_folder().string());
  const std::vector<Shown> all = shown_in(split(test::read_text(test::source_folder() / "README.md"), '\n'));
  EXPECT_GE(all.size(), 4u);
  for (const Shown& one : all) {
    SCOPED_TRACE(one.command);
    std::vector<std::string> words;
    for (const foreign::ShellWord& word : foreign::shell_words(one.command, "README")) words.push_back(word.text);
    words.erase(words.begin());  // ./moesh
    const Outcome made = outcome_of(words);
    const std::string printed = with_single_spaces(made.out);
    std::size_t place = 0;
    for (const std::string& line : one.lines) {
      for (const std::string& piece : split(std::regex_replace(with_single_spaces(line), std::regex(R"(\.\.\.)"), "\n"), '\n')) {
        const std::string wanted = std::string(trim(piece));
        const std::size_t found = printed.find(wanted, place);
        EXPECT_NE(found, std::string::npos) << line;
        if (found != std::string::npos) place = found + wanted.size();
      }
    }
  }
}

}  // namespace
}  // namespace moesh::cli
