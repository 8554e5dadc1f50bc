#include <string>
#include <vector>

#include "base/log.h"
#include "base/streams.h"
#include "cli/command.h"

int main(int argc, char** argv) {
  if (!moesh::occupy_streams()) {
    moesh::log_error("standard output: it is closed\n  fix: >/dev/null, if nobody is to read it");
    return 1;
  }
  // A caller may leave out even the program's own name.
  return moesh::cli::run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
