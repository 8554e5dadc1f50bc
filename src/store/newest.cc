#include "store/newest.h"

#include <memory>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "store/folder.h"

namespace moesh::store {
namespace {

// Whether `act` succeeded. Rethrows its error if it is not damage, or if no other checkpoint is left.
bool succeeds(bool has_next, bool warns, const std::function<void()>& act) {
  try {
    act();
    return true;
  } catch (const Error& error) {
    if (!has_next || error.parts().fault == Fault::failed) throw;
    if (warns) log_warning(std::string(error.what()) + kOneBeforeIsTaken);
    return false;
  }
}

void with_newest(const std::string& path, bool warns, const std::function<void(Checkpoint&)>& check,
                 const std::function<void(Checkpoint&)>& read) {
  const std::vector<std::string> paths = checkpoints_at(path);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const bool has_next = i + 1 < paths.size();
    std::unique_ptr<Checkpoint> checkpoint;
    if (!succeeds(has_next, warns, [&] { checkpoint = std::make_unique<Checkpoint>(paths[i]); })) continue;
    check(*checkpoint);
    if (succeeds(has_next, warns, [&] { read(*checkpoint); })) return;
  }
}

}  // namespace

void with_newest_whole(const std::string& path, const std::function<void(Checkpoint&)>& check,
                       const std::function<void(Checkpoint&)>& read) {
  with_newest(path, true, check, read);
}

Index newest_index(const std::string& path) {
  Index index;
  with_newest(path, false, [](Checkpoint&) {}, [&](Checkpoint& opened) { index = opened.index(); });
  return index;
}

}  // namespace moesh::store
