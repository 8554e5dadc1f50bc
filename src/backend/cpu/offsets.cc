#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "backend/cpu/gemm.h"

namespace moesh::backend::cpu {
namespace {

constexpr std::int64_t kMostKept = 16384;  // offsets of a list that is kept
constexpr std::size_t kMostLists = 64;

// Lists that a thread keeps for later calls. Most products ask for the same ones again, and if they were written anew, each core would
// have to fetch them from the caches of the one that wrote them: longer than a small product takes.
class KeptSteps {
 public:
  // Null if the list is not kept.
  const std::int64_t* find(std::int64_t count, std::int64_t step) {
    if (count > kMostKept) return nullptr;
    auto list = std::find_if(lists_.begin(), lists_.end(), [&](const List& one) { return one.step == step; });
    if (list == lists_.end()) {
      if (lists_.size() == kMostLists) return nullptr;
      list = lists_.insert(list, List{step});
    }
    if (list->count < count) lengthen(*list, count);
    return list->blocks.back().get();
  }

 private:
  struct List {
    std::int64_t step;
    std::int64_t count = -1;
    std::vector<std::unique_ptr<std::int64_t[]>> blocks = {};  // the last is in use; products may still read the others
  };

  static void lengthen(List& list, std::int64_t count) {
    list.count = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(count, 64))));
    list.blocks.push_back(std::make_unique_for_overwrite<std::int64_t[]>(static_cast<std::size_t>(list.count)));
    lay_steps(0, list.step, list.count, list.blocks.back().get());
  }

  std::vector<List> lists_;
};

Offsets offsets_in(const std::int64_t* first, std::int64_t count, std::int64_t step) {
  Offsets offsets(first, static_cast<std::size_t>(count));
  offsets.pitch = step;
  return offsets;
}

}  // namespace

OffsetList steps(std::int64_t count, std::int64_t step) {
  static thread_local KeptSteps kept;
  if (const std::int64_t* const first = kept.find(count, step)) return OffsetList(offsets_in(first, count, step));
  ScratchList<std::int64_t> list(static_cast<std::size_t>(count));
  lay_steps(0, step, count, list.data());
  return OffsetList(std::move(list), step);
}

}  // namespace moesh::backend::cpu
