// Checks that a test quotes every error message: the longest fixed part of each message in the sources must occur in a string
// of the tests.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/paths.h"
#include "tests/support.h"

namespace moesh {
namespace {

const std::filesystem::path kRoot = test::source_folder();

// The functions that raise an error. The first string among a call's arguments is the message, or its only fixed part.
const std::set<std::string> kRaising{"refuse", "fail", "refuse_value", "refuse_shapes", "reject"};

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Returns the content of the literal whose opening quote is at `at`, and moves `at` past the closing quote.
std::string literal(std::string_view code, std::size_t& at) {
  std::string text;
  for (++at; at < code.size() && code[at] != '"'; ++at) {
    if (code[at] != '\\') {
      text += code[at];
      continue;
    }
    ++at;
    text += code[at] == 'n' ? '\n' : code[at];
  }
  ++at;
  return text;
}

std::size_t skip_blank(std::string_view code, std::size_t at) {
  while (at < code.size() && std::isspace(static_cast<unsigned char>(code[at])) != 0) ++at;
  return at;
}

bool is_comment(std::string_view code, std::size_t at) { return code.substr(at, 2) == "//"; }

std::size_t line_end(std::string_view code, std::size_t at) { return std::min(code.find('\n', at), code.size()); }

// The literal at `at`, joined with the adjacent literals that follow it.
std::string joined_literal(std::string_view code, std::size_t& at) {
  std::string text = literal(code, at);
  for (std::size_t next = skip_blank(code, at); next < code.size() && code[next] == '"'; next = skip_blank(code, at)) {
    at = next;
    text += literal(code, at);
  }
  return text;
}

// All string literals of a file, with adjacent literals joined.
std::vector<std::string> texts_of(const std::string& code) {
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < code.size();) {
    if (is_comment(code, at)) {
      at = line_end(code, at);
    } else if (code[at] == '\'' && at > 0 && !in_word(code[at - 1])) {
      at += code[at + 1] == '\\' ? 4 : 3;
    } else if (code[at] == '"') {
      texts.push_back(joined_literal(code, at));
    } else {
      ++at;
    }
  }
  return texts;
}

// The first string among the arguments of the call whose opening parenthesis is at `at`.
std::string first_text(std::string_view code, std::size_t at) {
  int depth = 0;
  for (; at < code.size(); ++at) {
    if (code[at] == '(') ++depth;
    if (code[at] == ')' && --depth == 0) return "";
    if (code[at] == '"') return joined_literal(code, at);
  }
  return "";
}

// The longest part of a message between its placeholders.
std::string fixed_part(const std::string& message) {
  std::string longest;
  std::string part;
  for (std::size_t i = 0; i <= message.size(); ++i) {
    if (i < message.size() && message[i] != '{') {
      part += message[i];
      continue;
    }
    if (part.size() > longest.size()) longest = part;
    part.clear();
    i = std::min(message.find('}', i), message.size());
  }
  return longest;
}

struct Message {
  std::string where;
  std::string text;
};

std::vector<Message> messages_in(const std::filesystem::path& file) {
  std::vector<Message> found;
  const std::string code = test::read_text(file);
  std::size_t line = 1;
  for (std::size_t at = 0; at < code.size(); ++at) {
    if (code[at] == '\n') ++line;
    if (is_comment(code, at)) {
      at = line_end(code, at) - 1;
      continue;
    }
    const bool begins_word = in_word(code[at]) && (at == 0 || (!in_word(code[at - 1]) && code[at - 1] != '.'));
    if (!begins_word) continue;
    std::size_t end = at;
    while (end < code.size() && in_word(code[end])) ++end;
    const bool is_definition = at >= 5 && code.substr(at - 5, 5) == "void ";
    if (end < code.size() && code[end] == '(' && !is_definition && kRaising.contains(code.substr(at, end - at))) {
      const std::string text = fixed_part(first_text(code, end));
      const std::string name = file.lexically_relative(kRoot).string();
      if (!text.empty()) found.push_back({name + ":" + std::to_string(line), text});
    }
    at = end - 1;
  }
  return found;
}

std::vector<std::filesystem::path> files_under(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".cc") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Messages that no test can provoke: they report a binary built wrongly, without a file or a kernel; a system that does not let a process
// protect its memory or start another one; a run that breaks its own plan; and a SentencePiece failure on a model that was read well.
const std::set<std::string> kUnreachable{"a built-in file is missing: ", "memory cannot be closed or opened: ", "no process can be started: ",
                                         "the run did something else than its plan: ", "SentencePiece: "};

std::vector<Message> all_messages() {
  std::vector<Message> all;
  for (const auto& file : files_under(kRoot / "src")) {
    for (Message& message : messages_in(file)) all.push_back(std::move(message));
  }
  return all;
}

TEST(Messages, AreAllQuotedByATest) {
  std::vector<std::string> quoted;
  for (const auto& file : files_under(kRoot / "tests")) {
    if (file.filename() == "messages_test.cc") continue;
    for (std::string& text : texts_of(test::read_text(file))) quoted.push_back(std::move(text));
  }
  for (const Message& message : all_messages()) {
    const bool found =
        kUnreachable.contains(message.text) || std::any_of(quoted.begin(), quoted.end(), [&](const std::string& text) {
          return text.find(message.text) != std::string::npos;
        });
    EXPECT_TRUE(found) << message.where << ": no test quotes \"" << message.text << "\"";
  }
}

TEST(Messages, AreFoundInTheSources) {
  const std::vector<Message> all = all_messages();
  EXPECT_GT(all.size(), 130u);
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](const Message& m) { return m.text == "unknown key '"; }));
  EXPECT_TRUE(std::any_of(all.begin(), all.end(),
                          [](const Message& m) { return m.text == ", but the mesh has only the axes "; }));
}

}  // namespace
}  // namespace moesh
