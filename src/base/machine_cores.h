// How many cores this process may keep busy, and which of them a thread is on.
#pragma once

#include <string>

#include <sched.h>

namespace moesh {

// The cores that it may run on, or fewer if a container's CPU quota, rounded up to whole cores, is less. `root`: the folder that /proc and
// /sys are in.
int usable_cores(const std::string& root = "");

// The core that the calling thread runs on, or -1 if the system does not tell.
int current_core();

// The cores that one thread may run on. Other threads of the process may move it between them.
class ThreadCores {
 public:
  static ThreadCores of_caller();

  void keep_off(int core) const;  // moves the thread to other cores, if there are any, until restore()
  void restore() const;

 private:
  pid_t thread_ = 0;
  cpu_set_t all_{};
};

}  // namespace moesh
