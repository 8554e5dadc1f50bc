#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "base/log.h"
#include "base/streams.h"
#include "cli/command.h"

namespace {

// If memory is so short that no exception object can be allocated, the program terminates without an exception to catch.
[[noreturn]] void end_without_memory() {
  if (std::current_exception() != nullptr) std::abort();
  constexpr std::string_view kSaid = "moesh: error: out of memory\n  fix: a smaller model, batch or length\n";
  std::_Exit(::write(STDERR_FILENO, kSaid.data(), kSaid.size()) < 0 ? 2 : 1);
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(end_without_memory);
  if (!moesh::occupy_streams()) {
    moesh::log_error("standard output: it is closed\n  fix: >/dev/null, if nobody is to read it");
    return 1;
  }
  // The caller of exec may leave out even the program's own name.
  return moesh::cli::run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
