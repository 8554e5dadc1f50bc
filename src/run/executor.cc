#include "run/executor.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/core.h>

#include "base/error.h"
#include "graph/facts.h"
#include "graph/rewrite.h"
#include "run/group.h"
#include "run/plain/plain.h"
#include "run/traffic.h"

namespace moesh::run {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;

// A stacked value seen as [outer, iterations, inner].
struct Stacked {
  std::int64_t outer = 1;
  std::int64_t iterations = 1;
  std::int64_t inner_bytes = 1;

  Stacked(const View& view, const std::vector<std::int64_t>& sizes, int position) {
    const auto at = static_cast<std::size_t>(position);
    for (std::size_t dim = 0; dim < view.shape.size(); ++dim) {
      if (dim < at) {
        outer *= view.shape[dim];
      } else if (dim < at + sizes.size()) {
        iterations *= view.shape[dim];
      } else {
        inner_bytes *= view.shape[dim];
      }
    }
    inner_bytes *= size_of(view.dtype);
  }

  std::byte* block(const View& view, std::int64_t row, std::int64_t iteration) const {
    return view.raw() + (row * iterations + iteration) * inner_bytes;
  }
};

Shape slice_shape(const Shape& stacked, const std::vector<std::int64_t>& sizes, int position) {
  Shape shape = stacked;
  shape.erase(shape.begin() + position, shape.begin() + position + static_cast<std::ptrdiff_t>(sizes.size()));
  return shape;
}

// An iteration's part of a stacked value: seen in place where it is dense, copied where it is not.
Array slice_of(const Array& stacked, const graph::RepeatOf& of, int position, std::int64_t iteration, Pool& pool) {
  const Stacked layout(stacked.view, of.sizes, position);
  Shape shape = slice_shape(stacked.view.shape, of.sizes, position);
  if (layout.outer == 1) {
    return {stacked.storage, View{layout.block(stacked.view, 0, iteration), stacked.view.dtype, std::move(shape)}};
  }
  Array slice = pool.allocate(std::move(shape), stacked.view.dtype);
  if (pool.only_counts()) return slice;
  for (std::int64_t row = 0; row < layout.outer; ++row) {
    std::memcpy(slice.raw() + row * layout.inner_bytes, layout.block(stacked.view, row, iteration),
                static_cast<std::size_t>(layout.inner_bytes));
  }
  return slice;
}

Placed slice_of(const Placed& stacked, const graph::RepeatOf& of, int position, std::int64_t iteration, Pool& pool) {
  Placed slice{slice_shape(stacked.shape, of.sizes, position), stacked.spec, {}};
  if (!slice.spec.dims.empty()) {
    const auto first = slice.spec.dims.begin() + position;
    slice.spec.dims.erase(first, first + static_cast<std::ptrdiff_t>(of.sizes.size()));
  }
  for (const Array& shard : stacked.shards) slice.shards.push_back(slice_of(shard, of, position, iteration, pool));
  return slice;
}

void put_slice(const Array& slice, const Array& stacked, const graph::RepeatOf& of, int position,
               std::int64_t iteration) {
  const Stacked layout(stacked.view, of.sizes, position);
  assert(slice.bytes() == layout.outer * layout.inner_bytes && "a slice with fewer rows than planned");
  for (std::int64_t row = 0; row < layout.outer; ++row) {
    std::memcpy(layout.block(stacked.view, row, iteration), slice.raw() + row * layout.inner_bytes,
                static_cast<std::size_t>(layout.inner_bytes));
  }
}

// Whether a node reads a value of stacked slices only as what it is: one at a time, in a repeat of as many iterations.
bool reads_slices_only(const Node& node, ValueId id, const graph::RepeatOf& stacked_by) {
  const auto* of = std::get_if<graph::RepeatOf>(&node.attributes);
  const int whole = of == nullptr ? static_cast<int>(node.operands.size()) : of->carried + of->shared;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    if (node.operands[i] != id) continue;
    const int sliced = static_cast<int>(i) - whole;
    if (sliced < 0 || of->slices[static_cast<std::size_t>(sliced)] != 0 || of->sizes != stacked_by.sizes) return false;
  }
  return true;
}

// What only other repeats read of a repeat's result, an iteration's slice at a time, is not copied together: the slices stay what
// they are, with as many rows as there are.
bool stays_in_slices(const Graph& graph, ValueId id, const graph::RepeatOf& of, int position) {
  return position == 0 && std::find(graph.results.begin(), graph.results.end(), id) == graph.results.end() &&
         std::all_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return reads_slices_only(node, id, of); });
}

Shape begins(const std::vector<Range>& block) {
  Shape shape;
  for (const Range& range : block) shape.push_back(range.begin);
  return shape;
}

// Results are needed to the end, a value that nobody reads until it is made.
std::vector<std::size_t> last_uses_of(const Graph& graph) {
  std::vector<std::size_t> last(graph.values.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId id : graph.nodes[i].operands) last[static_cast<std::size_t>(id)] = i;
    for (const ValueId id : graph.nodes[i].results) last[static_cast<std::size_t>(id)] = i;
  }
  for (const ValueId id : graph.results) last[static_cast<std::size_t>(id)] = graph.nodes.size();
  return last;
}

// Kernels go by the graph's shapes and types, whatever the buffer is.
void check_feeds(const Graph& graph, const std::vector<Placed>& feeds) {
  std::size_t fed = 0;
  for (const Node& node : graph.nodes) {
    if (!is_root(node)) continue;
    const graph::Value& root = graph.value(node.results.front());
    if (fed == feeds.size() || !feeds[fed]) fail("a program is run without a value for this", node.path);
    const Placed& feed = feeds[fed++];
    const DType dtype = feed.shards.front().view.dtype;
    if (feed.shape == root.shape && dtype == root.dtype) continue;
    fail(fmt::format("a program takes {} {}, it is given {} {}", name_of(root.dtype), to_string(root.shape),
                     name_of(dtype), to_string(feed.shape)),
         node.path);
  }
  if (fed < feeds.size()) fail(fmt::format("{} values for a program that takes {}", feeds.size(), fed));
}

}  // namespace

std::vector<Placed> Executor::run(const Graph& graph, std::vector<Placed> feeds, const Observers& observers) {
  check_feeds(graph, feeds);
  Frame frame{graph, observers, last_uses_of(graph), std::vector<Placed>(graph.values.size())};
  std::size_t fed = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (is_root(node)) {
      frame.value(node.results.front()) = std::move(feeds[fed++]);
    } else {
      run_node(node, frame);
    }
    for (const std::vector<ValueId>* ids : {&node.operands, &node.results}) {
      for (const ValueId id : *ids) {
        if (frame.last_uses[static_cast<std::size_t>(id)] == i) frame.value(id) = {};
      }
    }
  }
  std::vector<Placed> results;
  for (const ValueId id : graph.results) results.push_back(frame.value(id));
  return results;
}

std::vector<Array> Executor::run(const Graph& graph, std::vector<Array> feeds) {
  std::vector<Placed> placed;
  for (Array& feed : feeds) placed.push_back({feed.view.shape, {}, {std::move(feed)}});
  std::vector<Array> results;
  for (Placed& made : run(graph, std::move(placed))) results.push_back(std::move(made.shards.front()));
  return results;
}

void Executor::run_node(const Node& node, Frame& frame) {
  switch (node.op) {
    case Op::constraint: frame.value(node.results[0]) = frame.value(node.operands[0]); break;
    case Op::reshard: run_reshard(node, frame); break;
    case Op::all_sum: run_all_sum(node, frame); break;
    case Op::repeat: run_repeat(node, frame); break;
    case Op::region: run_region(node, frame); break;
    case Op::stage_state: fail("pipeline stages are laid out but not run yet", node.path, "ici_pipeline_parallelism=1");
    default: run_op(node, frame);
  }
  if (frame.observers.sent != nullptr) count_traffic(node, frame);
  if (!frame.observers.watch) return;
  std::vector<Placed> made;
  for (const ValueId id : node.results) made.push_back(frame.value(id));
  frame.observers.watch(node, made);
}

void Executor::run_reshard(const Node& node, Frame& frame) {
  const graph::Value& result = frame.graph.value(node.results[0]);
  // A device that is planned for alone has shards without specs: only the result's shape tells what it will hold.
  frame.value(node.results[0]) = pool_->only_counts()
                                     ? unfilled(result.shape, result.dtype, result.spec, mesh_, *pool_)
                                     : reshard(frame.value(node.operands[0]), result.spec, mesh_, *pool_, workers_);
}

// Of what devices have of their own along the group's axes, each has a part.
void Executor::run_all_sum(const Node& node, Frame& frame) {
  const graph::Value& result = frame.graph.value(node.results[0]);
  const Placed& own = frame.value(node.operands[0]);
  if (pool_->only_counts()) {
    frame.value(node.results[0]) = unfilled(result.shape, result.dtype, result.spec, mesh_, *pool_);
    return;
  }
  sharding::AxisList all = result.spec.own;
  for (const sharding::AxisIndex axis : std::get<graph::GroupOf>(node.attributes).axes) all.push_back(axis);
  std::sort(all.begin(), all.end());
  const ShardAxes parts(all, mesh_), own_axes(own.spec, mesh_);
  Placed sum{own.shape, {own.spec.dims, all}, {}};
  for (std::size_t i = 0; i < parts.count(); ++i) sum.shards.push_back(own.shards[own_axes.index(parts.coordinates(i))]);
  sum = reshard(sum, {own.spec.dims, result.spec.own}, mesh_, *pool_, workers_);
  sum.spec = result.spec;
  frame.value(node.results[0]) = std::move(sum);
}

void Executor::count_traffic(const Node& node, Frame& frame) const {
  std::vector<const Placed*> operands;
  for (const ValueId id : node.operands) operands.push_back(&frame.value(id));
  add_traffic(node, operands, frame.value(node.results[0]), mesh_, *frame.observers.sent);
}

namespace {

std::int64_t sum_of(const Array& sizes) {
  return std::accumulate(sizes.as<std::int32_t>(), sizes.as<std::int32_t>() + sizes.view.count(), std::int64_t{0});
}

// Whether a result may take this operand's buffer once nobody needs the operand: no other value lies in it.
bool owns_buffers(const Placed& operand) {
  return std::all_of(operand.shards.begin(), operand.shards.end(),
                     [](const Array& a) { return a.storage.use_count() == 1; });
}

// How many of the rows that a result has room for are there. `own`: this device's operands.
std::int64_t rows_made(const Node& node, const Shape& shape, const std::function<const Array&(std::size_t)>& own) {
  switch (node.op) {
    case Op::fetch_rows: return sum_of(own(2));
    case Op::list_tokens: return std::min(shape[0], sum_of(own(1)));
    case Op::sum_rows: return *own(3).as<std::int32_t>();
    case Op::exchange_rows: return std::get<graph::GroupOf>(node.attributes).back ? shape[0] : sum_of(own(3));
    case Op::unary:
    case Op::unary_grad:
    case Op::binary:
    case Op::cast:
    case Op::grouped_matmul:
    case Op::grouped_bias:
    case Op::weighted_rows_grad: return own(0).view.shape[0];
    default: return shape[0];
  }
}

// The kernel of a node that is no body, reshard or sum over devices.
Kernel kernel_of(const Node& node) {
  const auto* group = std::get_if<graph::GroupOf>(&node.attributes);
  if (graph::facts_of(node.op).is_split && group->members > 1) {
    fail(fmt::format("{} over {} devices runs as collectives and kernels of one device each", name_of(node.op), group->members),
         node.path, "partition the graph first");
  }
  Kernel kernel = find_cpu_kernel(node.op);
  if (kernel == nullptr) kernel = plain::find_kernel(node.op);
  if (kernel == nullptr && node.op != Op::reshape) fail(fmt::format("{} cannot be run yet", name_of(node.op)), node.path);
  return kernel;
}

}  // namespace

// Once for each coordinate along the axes over which an operand's or a result's shards differ: elsewhere devices would
// do the same again.
void Executor::run_op(const Node& node, Frame& frame) {
  const Graph& graph = frame.graph;
  const Kernel kernel = kernel_of(node);
  std::vector<const Placed*> operands;
  std::vector<ShardAxes> operand_axes;
  for (const ValueId id : node.operands) {
    operands.push_back(&frame.value(id));
    operand_axes.emplace_back(operands.back()->spec, mesh_);
  }
  std::vector<Placed> results;
  for (const ValueId id : node.results) results.push_back({graph.value(id).shape, graph.value(id).spec, {}});
  const ShardAxes all(results.front().spec, mesh_);
  const auto* of_group = std::get_if<graph::GroupOf>(&node.attributes);
  const Group group(of_group == nullptr || pool_->only_counts() ? sharding::AxisList{} : of_group->axes, mesh_);
  const std::int64_t members = graph::collective_of(node) ? group.members() : 1;
  const auto number = static_cast<std::size_t>(&node - graph.nodes.data());
  const bool reuses = node.op == Op::cache_write && operands[0]->spec == results[0].spec &&
                      owns_buffers(*operands[0]) &&
                      frame.last_uses[static_cast<std::size_t>(node.operands[0])] == number;
  for (std::size_t index = 0; index < all.count(); ++index) {
    const Coordinates at = all.coordinates(index);
    std::vector<Array> shards;
    std::vector<Shape> origins;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      for (std::int64_t m = 0; m < members; ++m) {
        shards.push_back(operands[i]->shards[operand_axes[i].index(members == 1 ? at : group.coordinates(at, m))]);
      }
      if (all.count() > 1) origins.push_back(begins(block_of(operands[i]->shape, operands[i]->spec, mesh_, at)));
    }
    for (const Placed& result : results) {
      if (all.count() > 1) origins.push_back(begins(block_of(result.shape, result.spec, mesh_, at)));
    }
    const std::int64_t member = group.member(at);
    const auto own = [&](std::size_t i) -> const Array& {
      return shards[i * static_cast<std::size_t>(members) + static_cast<std::size_t>(members == 1 ? 0 : member)];
    };
    std::vector<Array> made;
    for (std::size_t i = 0; i < results.size(); ++i) {
      Shape shape = shape_of(block_of(results[i].shape, results[i].spec, mesh_, at));
      if (!shape.empty() && !pool_->only_counts()) shape[0] = rows_made(node, shape, own);
      made.push_back(node.op == Op::reshape || reuses ? reshaped(shards[0], shape)
                                                      : pool_->allocate(shape, graph.value(node.results[i]).dtype));
    }
    if (node.op != Op::reshape && !pool_->only_counts()) {
      std::vector<View> in;
      std::vector<View> out;
      for (const Array& shard : shards) in.push_back(shard.view);
      for (const Array& result : made) out.push_back(result.view);
      kernel({node.attributes, in, out, workers_, origins, member, members});
    }
    for (std::size_t i = 0; i < results.size(); ++i) results[i].shards.push_back(std::move(made[i]));
  }
  for (std::size_t i = 0; i < results.size(); ++i) frame.value(node.results[i]) = std::move(results[i]);
}

// The body sees shards as values of their own.
void Executor::run_region(const Node& node, Frame& frame) {
  const Graph& body = *graph::body_of(node);
  const std::vector<ValueId> inputs = graph::inputs_of(body);
  std::vector<Placed> feeds;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const graph::Value& local = body.value(inputs[i]);
    feeds.push_back({local.shape, local.spec, frame.value(node.operands[i]).shards});
  }
  const std::vector<Placed> made = run(body, std::move(feeds), frame.observers);
  for (std::size_t i = 0; i < made.size(); ++i) {
    const graph::Value& whole = frame.graph.value(node.results[i]);
    const ShardAxes axes(whole.spec, mesh_);
    const ShardAxes made_axes(made[i].spec, mesh_);
    Placed result{whole.shape, whole.spec, {}};
    for (std::size_t s = 0; s < axes.count(); ++s)
      result.shards.push_back(made[i].shards[made_axes.index(axes.coordinates(s))]);
    frame.value(node.results[i]) = std::move(result);
  }
}

void Executor::run_repeat(const Node& node, Frame& frame) {
  const auto& of = std::get<graph::RepeatOf>(node.attributes);
  const auto carried_count = static_cast<std::size_t>(of.carried);
  const auto shared_end = carried_count + static_cast<std::size_t>(of.shared);
  // What only the first iteration needs is not held for all of them.
  const auto number = static_cast<std::size_t>(&node - frame.graph.nodes.data());
  std::vector<Placed> carried;
  for (std::size_t i = 0; i < carried_count; ++i) {
    const ValueId id = node.operands[i];
    const bool is_last_use = frame.last_uses[static_cast<std::size_t>(id)] == number &&
                             std::count(node.operands.begin(), node.operands.end(), id) == 1;
    carried.push_back(is_last_use ? std::move(frame.value(id)) : frame.value(id));
  }
  std::vector<Placed> stacked;
  for (std::size_t i = carried_count; i < node.results.size(); ++i) {
    const graph::Value& value = frame.graph.value(node.results[i]);
    if (stays_in_slices(frame.graph, node.results[i], of, of.stacks[i - carried_count])) {
      stacked.push_back({value.shape, value.spec, {}, std::vector<Placed>(static_cast<std::size_t>(of.count()))});
    } else {
      stacked.push_back(unfilled(value.shape, value.dtype, value.spec, mesh_, *pool_));
    }
  }
  // Where buffers are only counted, and no slices are kept apart, the second iteration stands for all that follow.
  const bool keeps_slices =
      std::any_of(stacked.begin(), stacked.end(), [](const Placed& value) { return !value.slices.empty(); });
  const std::int64_t steps = pool_->only_counts() && !keeps_slices ? std::min<std::int64_t>(of.count(), 2) : of.count();
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t iteration = of.reverse ? of.count() - 1 - step : step;
    std::vector<Placed> feeds = std::move(carried);
    for (std::size_t i = carried_count; i < node.operands.size(); ++i) {
      const Placed& operand = frame.value(node.operands[i]);
      if (i < shared_end) {
        feeds.push_back(operand);
      } else if (!operand.slices.empty()) {
        feeds.push_back(operand.slices[static_cast<std::size_t>(iteration)]);
      } else {
        feeds.push_back(slice_of(operand, of, of.slices[i - shared_end], iteration, *pool_));
      }
    }
    std::vector<Placed> made = run(*of.body, std::move(feeds), frame.observers);
    for (std::size_t i = 0; i < stacked.size(); ++i) {
      Placed& slice = made[carried_count + i];
      if (!stacked[i].slices.empty()) {
        stacked[i].slices[static_cast<std::size_t>(iteration)] = std::move(slice);
        continue;
      }
      for (std::size_t s = 0; s < slice.shards.size(); ++s) {
        if (!pool_->only_counts()) put_slice(slice.shards[s], stacked[i].shards[s], of, of.stacks[i], iteration);
      }
    }
    made.resize(carried_count);
    carried = std::move(made);
  }
  for (std::size_t i = 0; i < carried_count; ++i) frame.value(node.results[i]) = carried[i];
  for (std::size_t i = 0; i < stacked.size(); ++i) {
    frame.value(node.results[carried_count + i]) = stacked[i];
  }
}

}  // namespace moesh::run
