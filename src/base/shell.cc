#include "base/shell.h"

#include <string_view>

#include "base/text.h"

namespace moesh {

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string made = "'";
  for (const char c : word) made += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return made + "'";
}

std::string shell_line(const std::vector<std::string>& words) {
  std::vector<std::string> made;
  for (const std::string& word : words) made.push_back(shell_word(word));
  return join(made, " ");
}

}  // namespace moesh
