// Signals that ask a run to end.
#pragma once

#include <array>

#include <signal.h>

namespace moesh::train {

// While it lives, the first of SIGINT (Ctrl-C), SIGTERM, SIGHUP and SIGUSR1 (with which job queues warn) prints `answer` at once
// and asks the loop to end after its step; the second ends the process. Before and afterwards the signals do what they did without
// it. A SIGHUP that the caller ignores, as nohup does, stays ignored. SIGPIPE is ignored during its
// lifetime, since it would end the process without a checkpoint: a write to a pipe that nobody reads is an error instead.
class Interrupts {
 public:
  // `answer`: a line to print on the first signal, which must live as long as the program; empty for none. `unanswered`: a signal to which
  // nothing is printed; 0 for none.
  static constexpr const char* kAnswer = "moesh: ending after this step; once more ends it at once\n";
  explicit Interrupts(const char* answer = kAnswer, int unanswered = 0);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool asked() const;
  int signal() const;     // which one
  int exit_code() const;  // 128 plus the signal's number, as shells report it

 private:
  std::array<struct sigaction, 4> before_;
  struct sigaction pipe_before_;
};

}  // namespace moesh::train
