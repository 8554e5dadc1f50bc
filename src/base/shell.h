// Command lines that a shell reads back unchanged.
#pragma once

#include <string>
#include <vector>

namespace moesh {

// The word as it can be pasted into a shell: unchanged if it is plain, otherwise in quotes.
std::string shell_word(const std::string& word);
// Such words, separated by blanks.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace moesh
