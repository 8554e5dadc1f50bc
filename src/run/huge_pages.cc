#include "run/huge_pages.h"

#include <algorithm>
#include <vector>

#include "base/pages.h"

namespace moesh::run {
namespace {

constexpr std::int64_t kManyPages = 8 * kHugePage;  // of so many one more or less does not matter

}  // namespace

void give_huge_pages(const plan::Plan& plan, const plan::Arena& arena, const std::function<std::int64_t(const plan::Buffer&)>& size,
                     const Memory& memory) {
  std::vector<char> is_counted(plan.buffers.size(), 0);
  for (const plan::View& view : plan.views) {
    if (view.rows >= 0) is_counted[static_cast<std::size_t>(view.buffer)] = 1;
  }
  struct Stretch {
    std::int64_t begin, end;
  };
  std::vector<Stretch> stretches;
  for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
    const std::int64_t bytes = plan::aligned(size(plan.buffers[b]));
    if (bytes == 0 || plan.buffers[b].lasts == plan::Lasts::from_run_to_run) continue;
    if (is_counted[b] != 0 && bytes / plan.mesh.devices() < kManyPages) continue;
    stretches.push_back({arena.offsets[b], arena.offsets[b] + bytes});
  }
  std::sort(stretches.begin(), stretches.end(), [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
  for (std::size_t i = 0; i < stretches.size();) {
    Stretch joined = stretches[i];
    for (++i; i < stretches.size() && stretches[i].begin <= joined.end; ++i) joined.end = std::max(joined.end, stretches[i].end);
    ask_for_huge_pages(memory.at(joined.begin), std::min(joined.end, memory.bytes()) - joined.begin);
  }
}

}  // namespace moesh::run
