#include "backend/cpu/offsets.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <vector>

namespace moesh::backend::cpu {
namespace {

constexpr std::int64_t kFewestKept = 512, kMostKept = 16384;  // offsets of a list that is kept
constexpr std::size_t kMostLists = 64;

// Lists that are kept for later calls of any thread. Most products ask for the same ones again, and if they were written anew, each core
// would have to fetch them from the caches of the one that wrote them: longer than a small product takes.
class KeptSteps {
 public:
  // Null if the list is not kept.
  const std::int64_t* find(std::int64_t count, std::int64_t step) {
    if (count > kMostKept) return nullptr;
    if (const List* const list = list_of(step); list != nullptr && list->count >= count) return list->first.get();
    const std::lock_guard lock(mutex_);
    for (std::atomic<const List*>& place : lists_) {
      const List* const list = place.load(std::memory_order_relaxed);
      if (list != nullptr && list->step != step) continue;
      if (list != nullptr && list->count >= count) return list->first.get();
      place.store(make(count, step), std::memory_order_release);
      return place.load(std::memory_order_relaxed)->first.get();
    }
    return nullptr;
  }

 private:
  struct List {
    std::int64_t step, count;
    std::unique_ptr<std::int64_t[]> first;
  };

  const List* list_of(std::int64_t step) const {
    for (const std::atomic<const List*>& place : lists_) {
      const List* const list = place.load(std::memory_order_acquire);
      if (list == nullptr || list->step == step) return list;
    }
    return nullptr;
  }

  const List* make(std::int64_t count, std::int64_t step) {
    const auto room = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(count, kFewestKept))));
    made_.push_back(
        std::make_unique<List>(List{step, room, std::make_unique_for_overwrite<std::int64_t[]>(static_cast<std::size_t>(room))}));
    lay_steps(0, step, room, made_.back()->first.get());
    return made_.back().get();
  }

  std::array<std::atomic<const List*>, kMostLists> lists_ = {};  // filled from the front
  std::mutex mutex_;
  std::vector<std::unique_ptr<const List>> made_;  // also those that a longer one has replaced, as products may still read them
};

}  // namespace

OffsetList steps(std::int64_t count, std::int64_t step) {
  static KeptSteps kept;
  if (const std::int64_t* const first = kept.find(count, step)) return OffsetList({first, static_cast<std::size_t>(count)}, step);
  ScratchList<std::int64_t> list(static_cast<std::size_t>(count));
  lay_steps(0, step, count, list.data());
  return OffsetList(std::move(list), step);
}

}  // namespace moesh::backend::cpu
