// A command as somebody pasted it, in the words that a shell would make of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moesh::foreign {

inline constexpr std::int64_t kMostBytes = 1 << 20;  // of a command, and of a job's file

// A word, or one of the shell's own signs between two words: | ; & < > or ( ).
struct ShellWord {
  std::string text;
  bool is_sign = false;
};

// Quotes and backslashes mean what they mean to a shell, a line's end is a blank, and a comment is left out. Nothing is expanded.
std::vector<ShellWord> shell_words(std::string_view text, const std::string& where);

}  // namespace moesh::foreign
