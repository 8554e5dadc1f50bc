// Command lines that a shell reads back as they were meant.
#pragma once

#include <string>
#include <vector>

namespace moesh {

// The word as it is pasted into a shell: as it is, or in quotes.
std::string shell_word(const std::string& word);
// Such words with blanks between them.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace moesh
