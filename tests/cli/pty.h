// Runs the binary on a pseudo-terminal: what it writes there, and what stays visible.
#pragma once

#include <cstdlib>
#include <pty.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/paths.h"
#include "tests/support.h"

namespace moesh::test {

using Variables = std::vector<std::pair<std::string, std::string>>;

// Everything that `moesh LINE` writes to a terminal of this width, escape sequences included. The command must end with `code`.
inline std::string written_to_terminal(const std::string& line, unsigned short columns, const Variables& variables = {}, int code = 0) {
  winsize size{};
  size.ws_row = 40;
  size.ws_col = columns;
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    ::setenv("TERM", "xterm", 1);
    ::unsetenv("COLUMNS");
    ::unsetenv("NO_COLOR");
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    std::vector<std::string> words = words_of(line);
    words.insert(words.begin(), binary());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv(arguments.front(), arguments.data());
    ::_exit(127);
  }
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t count = ::read(terminal, buffer, sizeof buffer);
    if (count <= 0) break;
    text.append(buffer, static_cast<std::size_t>(count));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(terminal);
  EXPECT_TRUE(WIFEXITED(status)) << line;
  EXPECT_EQ(WEXITSTATUS(status), code) << line << "\n" << text;
  return text;
}

// The lines that stay visible after carriage returns and erasures, without colours.
inline std::vector<std::string> seen(const std::string& written) {
  std::vector<std::string> lines{""};
  bool at_start = false;  // of a line that may be overwritten
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (written[i] == '\n') {
      lines.emplace_back();
      at_start = false;
    } else if (written[i] == '\r') {
      at_start = true;
    } else if (written[i] == '\033') {
      const std::size_t end = written.find_first_of("Km", i);
      if (written[end] == 'K' && at_start) lines.back().clear();
      i = end;
    } else {
      if (at_start) lines.back().clear();
      at_start = false;
      lines.back() += written[i];
    }
  }
  return lines;
}

}  // namespace moesh::test
