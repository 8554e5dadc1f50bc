// Checks that the commands in README and docs/ print what is said there, and that their links lead somewhere.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
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

// A planning command, and the lines that README shows of its output. They may be abridged, with or without "...". Before it, commands of
// the shell may make the files that it reads.
struct Shown {
  std::string command;
  std::vector<std::string> lines, before;
};

bool is_code(const std::string& line) { return line.starts_with("    "); }

// Finds the code blocks that begin with such a command. Its output is the rest of the block, and the next
// block too if the text between begins with "prints".
std::vector<Shown> shown_in(const std::vector<std::string>& text) {
  const std::regex plans(R"(    \./moesh (shardings|compile|lint|search --decode) .*)");
  const std::regex prepares(R"(    (cp|sed) .*)");
  std::vector<Shown> all;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!std::regex_match(text[i], plans)) continue;
    Shown one{text[i], {}, {}};
    for (std::size_t j = i; j > 0 && is_code(text[j - 1]) && std::regex_match(text[j - 1], prepares); --j)
      one.before.insert(one.before.begin(), text[j - 1]);
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

// README, CONTRIBUTING and docs/, relative to the top folder.
std::vector<std::string> pages() {
  std::vector<std::string> names{"README.md", "CONTRIBUTING.md"};
  for (const auto& entry : std::filesystem::directory_iterator(test::source_folder() / "docs")) {
    if (entry.path().extension() == ".md") names.push_back("docs/" + entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string text_of(const std::string& page) { return test::read_text(test::source_folder() / page); }

void expect_prints(const Shown& shown) {
  SCOPED_TRACE(shown.command);
  std::vector<std::string> words;
  for (const foreign::ShellWord& word : foreign::shell_words(shown.command, "a page")) words.push_back(word.text);
  words.erase(words.begin());  // ./moesh
  const Outcome made = outcome_of(words);
  const std::string printed = with_single_spaces(made.out);
  std::size_t place = 0;
  for (const std::string& line : shown.lines) {
    for (const std::string& piece : split(std::regex_replace(with_single_spaces(line), std::regex(R"(\.\.\.)"), "\n"), '\n')) {
      const std::string wanted = std::string(trim(piece));
      const std::size_t found = printed.find(wanted, place);
      EXPECT_NE(found, std::string::npos) << line;
      if (found != std::string::npos) place = found + wanted.size();
    }
  }
}

TEST(Docs, ShowWhatTheirCommandsPrint) {
  const test::Variable width("COLUMNS", "120");
  const test::TemporaryFolder folder;
  for (const char* name : {"configs", "tests", "docs"})
    std::filesystem::create_directory_symlink(test::source_folder() / name, folder.path() + "/" + name);
  const test::WorkingFolder top(folder.path());
  std::size_t shown = 0;
  for (const std::string& page : pages()) {
    SCOPED_TRACE(page);
    for (const Shown& one : shown_in(split(text_of(page), '\n'))) {
      for (const std::string& command : one.before) ASSERT_EQ(std::system(command.c_str()), 0) << command;
      expect_prints(one);
      ++shown;
    }
  }
  EXPECT_GE(shown, 7u);
}

// As GitHub makes them: in lower case, without punctuation, with "-" for blanks.
bool has_heading(const std::string& page, const std::string& anchor) {
  for (const std::string& line : split(text_of(page), '\n')) {
    if (!line.starts_with("#")) continue;
    std::string made;
    for (const char c : trim(std::string_view(line).substr(line.find(' ')))) {
      if (c == ' ') made += '-';
      else if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_') made += static_cast<char>(std::tolower(c));
    }
    if (made == anchor) return true;
  }
  return false;
}

TEST(Docs, LinkToFilesAndHeadingsThatExist) {
  const std::regex link(R"(\]\(([^)\s#]*)#?([^)\s]*)\))");
  std::size_t links = 0;
  for (const std::string& page : pages()) {
    const std::string text = text_of(page);
    for (std::sregex_iterator found(text.begin(), text.end(), link), end; found != end; ++found) {
      const std::string path = (*found)[1], anchor = (*found)[2];
      if (path.starts_with("http")) continue;
      SCOPED_TRACE(page + ": " + found->str());
      const std::string target =
          path.empty() ? page : (std::filesystem::path(page).parent_path() / path).lexically_normal().string();
      ASSERT_TRUE(std::filesystem::exists(test::source_folder() / target));
      EXPECT_TRUE(anchor.empty() || has_heading(target, anchor));
      ++links;
    }
  }
  EXPECT_GE(links, 30u);
}

}  // namespace
}  // namespace moesh::cli
