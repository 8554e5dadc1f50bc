#include "backend/chain.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/scratch_list.h"

namespace moesh::backend {
namespace {

using graph::ChainStep;
using graph::Op;

constexpr std::int64_t kBlock = 512;  // elements; few, so that some are read from memory while others are computed
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

constexpr int kNoResult = -1;

struct Link {
  const ChainStep& step;
  Kernel kernel;
  graph::Attributes attributes;
  int result = kNoResult;      // which result of the chain this step gives, if any
  bool is_made_there = false;  // written straight to the result's buffer, as no later step reads an operand there
};

// The buffers that a thread's kernels are given, kept from call to call.
struct Views {
  std::vector<View> values;  // the chain's operands, then the results of its steps
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
    std::byte* const room = mine.made.data() + k * static_cast<std::size_t>(kBlock * kWidest);
    View& result = mine.values[operands + k];
    const auto part_of_result = [&] { return part_of(call.results[static_cast<std::size_t>(links[k].result)], first); };
    set(result, links[k].is_made_there ? part_of_result() : View{room, links[k].step.dtype, {}}, count);
    const std::vector<int>& taken = links[k].step.operands;
    for (std::size_t i = 0; i < taken.size(); ++i) mine.given[i] = mine.values[static_cast<std::size_t>(taken[i])];
    links[k].kernel({links[k].attributes, {mine.given.data(), taken.size()}, {&result, 1}, call.workers});
  }
  for (std::size_t k = 0; k < links.size(); ++k) {
    if (links[k].result == kNoResult || links[k].is_made_there) continue;
    const View to = part_of(call.results[static_cast<std::size_t>(links[k].result)], first);
    std::memcpy(to.data, mine.values[operands + k].data, static_cast<std::size_t>(count * size_of(to.dtype)));
  }
}

ScratchList<Link> links_of(const KernelCall& call, Kernel (*kernel_of)(Op)) {
  const auto& chain = std::get<graph::ChainOf>(call.attributes);
  ScratchList<Link> links;
  for (const ChainStep& step : chain.steps) links.push_back({step, kernel_of(op_of(step.kind)), attributes_of(step)});
  for (std::size_t i = 0; i < chain.result_count(); ++i) {
    Link& link = links[chain.step_of(i)];
    link.result = static_cast<int>(i);
    const auto lies_there = [&](const View& operand) { return operand.data == call.results[i].data; };
    const bool is_last = chain.step_of(i) + 1 == links.size();
    link.is_made_there = is_last || std::none_of(call.operands.begin(), call.operands.end(), lies_there);
  }
  return links;
}

}  // namespace

void run_chain(const KernelCall& call, Kernel (*kernel_of)(Op)) {
  const ScratchList<Link> links = links_of(call, kernel_of);
  call.workers.parallel(call.results[0].count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin; first < end; first += kBlock) run_block(call, links, first, std::min(kBlock, end - first));
  });
}

}  // namespace moesh::backend
