// The folder in which a run keeps its checkpoints, each named by the step that was done last.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/descriptor.h"

namespace moesh::store {

// The steps of all checkpoints, the earliest first, also of those that are damaged or lack their index. A checkpoint that was being
// written or removed when a process died has another name. None if the folder is not there; fails if it cannot be read.
std::vector<std::int64_t> steps_in(const std::string& folder);
std::string checkpoint_path(const std::string& folder, std::int64_t step);

// Whether the checkpoint has an index. Fails if the system does not say.
bool has_index(const std::string& checkpoint);

// Removes all checkpoints with an index but the newest `keep`, and returns the steps of those removed.
std::vector<std::int64_t> keep_newest(const std::string& folder, std::int64_t keep);

// Gives a folder another name, under which nobody takes it for a checkpoint, and returns that.
std::string set_aside(const std::string& path);

// Removes what a run that died has left: checkpoints that it was writing or removing (STEP.part). One that it was about to replace
// (STEP.old) gets its name back, or is set aside if the new one has it. The caller holds the lock.
void clear_leftovers(const std::string& folder);

// The checkpoints at `path`, which may be a checkpoint, a folder of checkpoints or a run's folder; the newest first.
std::vector<std::string> checkpoints_at(const std::string& path);

// While it lives, no other process writes there. If the process dies, the lock is released.
class FolderLock {
 public:
  // Makes the folder if it is not there. Refuses one that another process has locked, and fails if it cannot be read and written.
  explicit FolderLock(const std::string& folder);

 private:
  Descriptor folder_;
};

}  // namespace moesh::store
