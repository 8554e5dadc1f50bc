// Runs a command in child processes: several by mpirun, restarted when they fail.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moesh::cli {

struct Launch {
  int processes = 1;
  int restarts = 0;                 // largest number of restarts
  bool chooses_threads = true;      // whether --threads may be added for each process; false if `words` has it
  std::vector<std::string> words;   // the command's name and its arguments
  std::string checkpoints = {};     // folder of the run's checkpoints, if it may be restarted
  std::optional<std::int64_t> from = std::nullopt;  // step of the checkpoint that the first start resumes from
};

// Returns the exit code. A signal makes the processes end after their current step.
int launch(const Launch& launch);

}  // namespace moesh::cli
