// The folder in which a run keeps its checkpoints, each named by the step that was done last.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/descriptor.h"

namespace moesh::store {

// The steps of the checkpoints that have an index, the earliest first. A checkpoint that was being written when a process died has
// another name.
std::vector<std::int64_t> steps_in(const std::string& folder);
std::string checkpoint_path(const std::string& folder, std::int64_t step);

// Removes all checkpoints but the newest `keep`, and returns the steps of those removed.
std::vector<std::int64_t> keep_newest(const std::string& folder, std::int64_t keep);

// The checkpoints at `path`, which may be a checkpoint, a folder of checkpoints or a run's folder; the newest first.
std::vector<std::string> checkpoints_at(const std::string& path);

// While it lives, no other process writes there. If the process dies, the lock is released.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);  // makes the folder if it is not there; refuses one that another process has locked

 private:
  Descriptor folder_;
};

}  // namespace moesh::store
