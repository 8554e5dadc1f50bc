// The folder in which a run keeps its checkpoints, each named by the step that was done last.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/descriptor.h"

namespace moesh::store {

// Where a run keeps them.
inline std::string checkpoints_of_run(const std::string& run_folder) { return run_folder + "/checkpoints"; }

// The steps of all checkpoints in ascending order, including damaged ones and those without an index. A checkpoint that was being written
// or removed when a process died has another name and is not listed. Empty if the folder does not exist; fails if it cannot be read.
std::vector<std::int64_t> steps_in(const std::string& folder);
std::string checkpoint_path(const std::string& folder, std::int64_t step);

// Whether the checkpoint has an index. Fails if the system cannot tell.
bool has_index(const std::string& checkpoint);

// Whether the checkpoint at a path is one of those that are to be kept; null: all are that have an index.
using Counts = std::function<bool(const std::string&)>;

// Removes all checkpoints with an index that are older than the newest `keep` that count, or moves them to the folder `aside` within if one
// is named. Returns the steps of those that are gone.
std::vector<std::int64_t> keep_newest(const std::string& folder, std::int64_t keep, const std::string& aside = "",
                                      const Counts& counts = nullptr);

// Renames a folder so that it is no longer taken for a checkpoint, and returns its new path.
std::string set_aside(const std::string& path);

// Cleans up after a run that died: removes the checkpoints that it was writing or removing (STEP.part), and gives one that it was about to
// replace (STEP.old) its name back, or sets it aside if the new checkpoint has taken the name. The caller must hold the lock.
void clear_leftovers(const std::string& folder);

// The checkpoints at `path`, which may be a checkpoint, a folder of checkpoints or a run's folder; the newest first.
std::vector<std::string> checkpoints_at(const std::string& path);

// While it lives, no other process writes there. If the process dies, the lock is released.
class FolderLock {
 public:
  // Creates the folder if it does not exist. Refuses a folder that another process has locked; fails if it cannot be read and written.
  explicit FolderLock(const std::string& folder);

 private:
  Descriptor folder_;
};

}  // namespace moesh::store
