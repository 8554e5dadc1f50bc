#include "backend/chain.h"

#include <algorithm>
#include <vector>

#include "backend/scratch_list.h"

namespace moesh::backend {
namespace {

using graph::ChainStep;
using graph::Op;

constexpr std::int64_t kBlock = 512;  // few, so that memory is read while others are worked on
constexpr std::int64_t kGrain = 32 * kBlock;

Op op_of(ChainStep::Kind kind) {
  switch (kind) {
    case ChainStep::Kind::unary: return Op::unary;
    case ChainStep::Kind::unary_grad: return Op::unary_grad;
    case ChainStep::Kind::binary: return Op::binary;
    case ChainStep::Kind::cast: return Op::cast;
  }
  return Op::cast;
}

graph::Attributes attributes_of(const ChainStep& step) {
  switch (step.kind) {
    case ChainStep::Kind::unary:
    case ChainStep::Kind::unary_grad: return step.unary;
    case ChainStep::Kind::binary: return step.binary;
    case ChainStep::Kind::cast: return {};
  }
  return {};
}

struct Link {
  const ChainStep& step;
  Kernel kernel;
  graph::Attributes attributes;
};

// What a thread's kernels are given, kept from call to call.
struct Views {
  std::vector<View> values;  // the chain's operands, then what its steps make
  std::vector<View> given;
  std::vector<std::byte> made;
};

// Elements [first, first + count).
View part_of(const View& whole, std::int64_t first) { return {whole.raw() + first * size_of(whole.dtype), whole.dtype, {}}; }

void set(View& view, const View& part, std::int64_t count) {
  view.data = part.data;
  view.dtype = part.dtype;
  view.shape.assign(1, count);
}

void run_block(const KernelCall& call, const ScratchList<Link>& links, std::int64_t first, std::int64_t count) {
  thread_local Views mine;
  const std::size_t operands = call.operands.size();
  constexpr std::int64_t kWidest = 8;
  mine.values.resize(std::max(mine.values.size(), operands + links.size()));
  mine.given.resize(2);
  mine.made.resize(std::max(mine.made.size(), links.size() * static_cast<std::size_t>(kBlock * kWidest)));
  for (std::size_t i = 0; i < operands; ++i) set(mine.values[i], part_of(call.operands[i], first), count);
  for (std::size_t k = 0; k < links.size(); ++k) {
    const bool is_last = k + 1 == links.size();
    std::byte* const room = mine.made.data() + k * static_cast<std::size_t>(kBlock * kWidest);
    View& result = mine.values[operands + k];
    set(result, is_last ? part_of(call.results[0], first) : View{room, links[k].step.dtype, {}}, count);
    const std::vector<int>& taken = links[k].step.operands;
    for (std::size_t i = 0; i < taken.size(); ++i) mine.given[i] = mine.values[static_cast<std::size_t>(taken[i])];
    links[k].kernel({links[k].attributes, {mine.given.data(), taken.size()}, {&result, 1}, call.workers});
  }
}

}  // namespace

void run_chain(const KernelCall& call, Kernel (*kernel_of)(Op)) {
  ScratchList<Link> links;
  for (const ChainStep& step : std::get<graph::ChainOf>(call.attributes).steps) {
    links.push_back({step, kernel_of(op_of(step.kind)), attributes_of(step)});
  }
  call.workers.parallel(call.results[0].count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin; first < end; first += kBlock) run_block(call, links, first, std::min(kBlock, end - first));
  });
}

}  // namespace moesh::backend
