// The folder in which a run keeps its checkpoints, each named by the step that was done last.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/descriptor.h"

namespace moesh::store {

// Of what has an index, the earliest first. What was being written when a process died has another name.
std::vector<std::int64_t> steps_in(const std::string& folder);
std::string checkpoint_path(const std::string& folder, std::int64_t step);

// Removes all but the newest `keep`. Returns which.
std::vector<std::int64_t> keep_newest(const std::string& folder, std::int64_t keep);

// What a user may name: a checkpoint, a folder of them, or a run's folder. The checkpoints there, the newest first.
std::vector<std::string> checkpoints_at(const std::string& path);

// While it lives no other process writes there. A process that dies lets go.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);  // makes it where it is not; refuses one that another process has

 private:
  Descriptor folder_;
};

}  // namespace moesh::store
