// How many cores this process may keep busy, and which of them a thread is on.
#pragma once

#include <string>

#include <sched.h>

namespace moesh {

// Those that it may run on, or fewer where a container's share of their time, rounded up, is less. `root`: where /proc
// and /sys lie.
int usable_cores(const std::string& root = "");

// The core that the calling thread runs on, or -1 where the machine does not tell.
int current_core();

// The cores that one thread may run on. Other threads of the process may move it between them.
class ThreadCores {
 public:
  static ThreadCores of_caller();

  void keep_off(int core) const;  // moves the thread away from it, if there is another, until restore()
  void restore() const;

 private:
  pid_t thread_ = 0;
  cpu_set_t all_{};
};

}  // namespace moesh
