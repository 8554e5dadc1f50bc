#include "base/streams.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>

#include "base/descriptor.h"

namespace moesh {
namespace {

bool is_open(int stream) { return ::fcntl(stream, F_GETFD) >= 0 || errno != EBADF; }

// open() takes the lowest free number, which is this stream's own as those below it are open. If there is no /dev/null, a folder is as
// harmless.
void occupy(int stream) {
  if (::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY) < 0) ::open("/", O_RDONLY);
}

}  // namespace

bool occupy_streams() {
  // A write beyond the limit on file sizes is then an error like that of a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  const bool has_output = is_open(STDOUT_FILENO);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (!is_open(stream)) occupy(stream);
  }
  return has_output;
}

void silence_output() {
  std::fflush(stdout);
  const Descriptor nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (nowhere.is_open()) ::dup2(nowhere.number(), STDOUT_FILENO);
}

void flush_output() {
  if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "standard output");
}

void say(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace moesh
