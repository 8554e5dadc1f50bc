// The newest checkpoint of a run that is whole, for those who read its parameters.
#pragma once

#include <functional>
#include <string>

#include "store/checkpoint.h"
#include "store/index.h"

namespace moesh::store {

// Ends a notice on damage where there is an earlier checkpoint.
inline constexpr const char* kOneBeforeIsTaken = "\n  the checkpoint before it is taken";

// Opens the checkpoint at `path`, which may be a run's folder: then it is the newest. `check` refuses one that does not fit; `read` reads
// what is needed of it, and refuses nothing but what is wrong with the checkpoint. Where a checkpoint cannot be opened, or turns out to be
// damaged as it is read, the one before it is taken, with a warning, and both are called again. Fails if the system does not let a
// checkpoint be read, which may be whole.
void with_newest_whole(const std::string& path, const std::function<void(Checkpoint&)>& check,
                       const std::function<void(Checkpoint&)>& read);

// The index of the newest checkpoint that can be opened, without a warning: that comes when its data are read.
Index newest_index(const std::string& path);

}  // namespace moesh::store
