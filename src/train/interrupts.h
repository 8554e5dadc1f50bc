// Signals that ask a run to end.
#pragma once

namespace moesh::train {

// While it lives, Ctrl-C asks the loop to end after the step; a second one ends the process.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool asked() const;
  int exit_code() const;  // 0 when nothing asked

 private:
  void (*previous_)(int);
};

}  // namespace moesh::train
