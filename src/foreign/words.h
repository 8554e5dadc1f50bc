// Splits a pasted command into words as a shell does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moesh::foreign {

inline constexpr std::int64_t kMostBytes = 1 << 20;  // largest size of a command, and of a job's file

// A word, or an operator of the shell between two words, one character at a time: | ; & < > ( ).
struct ShellWord {
  std::string text;
  bool is_sign = false;
};

// Quotes and backslashes have the same meaning as in a shell, line ends count as blanks, and comments are left out. Nothing is expanded.
std::vector<ShellWord> shell_words(std::string_view text, const std::string& where);

}  // namespace moesh::foreign
