// Runs a command in processes of its own: several by mpirun, and again when they end badly.
#pragma once

#include <string>
#include <vector>

namespace moesh::cli {

struct Launch {
  int processes = 1;
  int restarts = 0;                 // at most
  bool chooses_threads = true;      // for each process; else `words` do
  std::vector<std::string> words;   // of the command, with its name
};

// Returns the exit code. A signal ends the processes after their step.
int launch(const Launch& launch);

}  // namespace moesh::cli
