#include "run/owner.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include <fmt/core.h>

#include "base/bytes.h"
#include "base/error.h"
#include "run/huge_pages.h"

namespace moesh::run {
namespace {

using plan::Instruction;
using plan::InstructionId;
using plan::ViewId;
using sharding::AxisList;
using sharding::OwnedShards;
using Kind = Instruction::Kind;
using transport::Exchange;
using transport::Group;
using transport::Handed;

Shape begins(const std::vector<sharding::Range>& block) {
  Shape shape;
  for (const sharding::Range& range : block) shape.push_back(range.begin);
  return shape;
}

bool moves_shards(const Instruction& of) { return of.op == graph::Op::reshard || of.op == graph::Op::all_sum; }

const graph::GroupOf& group_of(const Instruction& of) { return std::get<graph::GroupOf>(of.attributes); }

backend::Kernel kernel_of(const Instruction& of, const backend::Backend& backend) {
  if (const backend::Kernel kernel = backend.find_kernel(of.op)) return kernel;
  fail(fmt::format("the backend {} has no kernel for {}", backend.name, name_of(of.op)), of.path);
}

}  // namespace

Owner::Owner(const Setup& setup)
    : plan_(setup.plan),
      owners_(setup.owners),
      self_(setup.self),
      workers_(setup.workers),
      backend_(setup.backend),
      state_(setup.state),
      wire_(setup.wire),
      arena_(plan::pack(plan_,
                        [&](const plan::Buffer& buffer) {
                          const std::int64_t bytes = stored_bytes(buffer);
                          return setup.checks_lifetimes && bytes > 0 ? bytes + LifetimeChecks::kGap : bytes;
                        })),
      memory_(memory_for(arena_.bytes, setup.scratch)),
      begins_(plan_.buffers.size()),
      held_(plan_.buffers.size(), memory_.owner()),
      prepared_(plan_.instructions.size()) {
  for (std::size_t b = 0; b < begins_.size(); ++b) begins_[b] = memory_.at(arena_.offsets[b]);
  const auto stored = [&](const plan::Buffer& buffer) { return stored_bytes(buffer); };
  give_huge_pages(plan_, arena_, stored, memory_);
  for (const plan::Port& port : plan_.ports) {
    if (port.kind != plan::Port::Kind::state) continue;
    const State::Place& place = state_.place(port.name, self_);
    const auto buffer = static_cast<std::size_t>(plan_.view(port.view).buffer);
    begins_[buffer] = place.begin();
    held_[buffer] = place.block.owner();
  }
  if (setup.checks_lifetimes) {
    gaps_ = arena_.bytes - plan::pack(plan_, stored).bytes;
    std::vector<std::int64_t> bytes;
    for (const plan::Buffer& buffer : plan_.buffers) bytes.push_back(stored_bytes(buffer));
    checks_ = std::make_unique<LifetimeChecks>(plan_, begins_, std::move(bytes));
  }
  for (std::size_t i = 0; i < plan_.instructions.size(); ++i) prepare(static_cast<InstructionId>(i));
  for (const View& view : views_) starts_.push_back(view.raw());
}

void Owner::close(bool is_closed) const {
  memory_.close(is_closed);
  state_.close(self_, is_closed);
}

const OwnedShards& Owner::shards(const AxisList& distinct) const {
  const auto found = shards_.find(distinct);
  if (found != shards_.end()) return found->second;
  return shards_.emplace(distinct, OwnedShards(distinct, plan_.mesh, owners_.devices(self_))).first->second;
}

std::int64_t Owner::stored_bytes(const plan::Buffer& buffer) const {
  return buffer.bytes * static_cast<std::int64_t>(shards(buffer.distinct).count());
}

Shape Owner::shape_at(const plan::View& view, const Coordinates& at) const {
  return sharding::shape_of(sharding::block_of(view.shape, view.spec, plan_.mesh, at));
}

// The address of the view's first slice, before any loop has moved it.
std::byte* Owner::address(const plan::View& view, const Coordinates& at) const {
  const plan::Buffer& buffer = plan_.buffer(view.buffer);
  const auto shard = shards(buffer.distinct).find(at);
  assert(shard && "a shard of another owner");
  return begins_[static_cast<std::size_t>(view.buffer)] + static_cast<std::int64_t>(*shard) * buffer.bytes;
}

// The bytes of one slice, which is the unit in which loops move a view.
std::int64_t Owner::unit_bytes(const plan::View& view, const Coordinates& at) const {
  const Shape shape = shape_at(view, at);
  return std::accumulate(shape.begin() + view.split, shape.end(), std::int64_t{size_of(view.dtype)}, std::multiplies<>());
}

std::size_t Owner::add_view(ViewId id, const Coordinates& at) {
  const plan::View& view = plan_.view(id);
  views_.push_back({address(view, at), view.dtype, shape_at(view, at)});
  for (const plan::Advance& advance : view.advances) {
    prepared(advance.loop).moved.push_back({views_.size() - 1, advance.by * unit_bytes(view, at)});
  }
  return views_.size() - 1;
}

// Adds views one after the other, then those that count their rows. Operands that come from another owner have no address yet.
std::vector<Owner::Rows> Owner::add_views(const std::vector<std::pair<ViewId, Coordinates>>& all) {
  const std::size_t first = views_.size();
  const auto is_here = [&](ViewId id, const Coordinates& at) { return shards(plan_.buffer_of(id).distinct).find(at).has_value(); };
  for (const auto& [id, at] : all) {
    const plan::View& view = plan_.view(id);
    is_here(id, at) ? void(add_view(id, at)) : views_.push_back({nullptr, view.dtype, shape_at(view, at)});
  }
  std::vector<Rows> rows;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [id, at] = all[i];
    const ViewId counts = plan_.view(id).rows;
    if (counts < 0 || !is_here(id, at) || !is_here(counts, at)) continue;
    const std::int64_t room = views_[first + i].shape[0];
    rows.push_back({first + i, add_view(counts, at), room});
  }
  return rows;
}

void Owner::prepare(InstructionId id) {
  const Instruction& of = instruction(id);
  if (of.kind == Kind::loop || of.kind == Kind::end) return;
  if (of.kind == Kind::copy) return prepare_copy(of, prepared(id));
  // The transport makes these even if a device is alone in its group.
  if (moves_shards(of)) return prepare_exchange(of, prepared(id));
  if (transport::find_row_collective(of.op) != nullptr) return prepare_rows(of, prepared(id));
  prepare_kernel(of, prepared(id));
}

// One launch per coordinate along the axes over which a result's shards differ: other devices would only repeat the work.
void Owner::prepare_kernel(const Instruction& of, Prepared& made) {
  made.kernel = kernel_of(of, backend_);
  const auto* group = std::get_if<graph::GroupOf>(&of.attributes);
  const Group devices(group == nullptr ? AxisList{} : group->axes, plan_.mesh);
  const AxisList distinct = sharding::distinct_axes(plan_.view(of.results.front()).spec);
  const OwnedShards& own = shards(distinct);
  const bool is_whole = sharding::shards(distinct, plan_.mesh) == 1;
  for (std::size_t i = 0; i < own.count(); ++i) {
    const Coordinates at = own.device(i);
    std::vector<std::pair<ViewId, Coordinates>> all;
    for (const auto* views : {&of.operands, &of.results}) {
      for (const ViewId view : *views) all.emplace_back(view, at);
    }
    Launch launch;
    launch.views = views_.size();
    launch.operands = of.operands.size();
    launch.results = of.results.size();
    launch.member = devices.member(at);
    launch.rows = add_views(all);
    for (std::size_t v = 0; v < all.size() && !is_whole; ++v) {
      const plan::View& view = plan_.view(all[v].first);
      launch.origins.push_back(begins(sharding::block_of(view.shape, view.spec, plan_.mesh, at)));
    }
    made.launches.push_back(std::move(launch));
  }
}

// The axes along which the operands of a region's collective differ, of those operands that travel.
AxisList Owner::sent_axes(const Instruction& of) const {
  AxisList axes;
  for (std::size_t i = 0; i < transport::operands_sent(of.op); ++i) {
    const AxisList more = sharding::distinct_axes(plan_.view(of.operands[i]).spec);
    axes.insert(axes.end(), more.begin(), more.end());
  }
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

Owner::Launch Owner::rows_launch(const Instruction& of, const Coordinates& at) {
  const Group group(group_of(of).axes, plan_.mesh);
  const OwnedShards& here = shards(sent_axes(of));
  Launch launch;
  launch.views = views_.size();
  launch.member = group.member(at);
  launch.members = group.members();
  std::vector<std::pair<ViewId, Coordinates>> all;
  for (const ViewId operand : of.operands) {
    for (std::int64_t m = 0; m < group.members(); ++m) all.emplace_back(operand, group.coordinates(at, m));
  }
  launch.operands = all.size();
  for (const ViewId result : of.results) all.emplace_back(result, at);
  launch.results = of.results.size();
  for (std::int64_t m = 0; m < group.members(); ++m) {
    const Coordinates device = group.coordinates(at, m);
    launch.owners.push_back(here.find(device) ? -1 : owners_.of(device));
    launch.is_packed.push_back(launch.owners.back() >= 0 ? 1 : 0);
  }
  launch.rows = add_views(all);
  return launch;
}

void Owner::prepare_rows(const Instruction& of, Prepared& made) {
  made.rows = transport::find_row_collective(of.op);
  const Group group(group_of(of).axes, plan_.mesh);
  const OwnedShards& own = shards(sharding::distinct_axes(plan_.view(of.results.front()).spec));
  for (std::size_t i = 0; i < own.count(); ++i) made.launches.push_back(rows_launch(of, own.device(i)));
  for (const Coordinates& device : owners_.devices(self_)) {
    Launch::Taker taker{plan_.mesh.device_at(device), group.member(device), {}};
    for (std::int64_t m = 0; m < group.members(); ++m) taker.senders.push_back(plan_.mesh.device_at(group.coordinates(device, m)));
    made.launches[*own.find(device)].takers.push_back(std::move(taker));
  }
  for (int owner = 0; owner < owners_.count(); ++owner) {
    if (owner != self_) prepare_outgoing(of, owner, made);
  }
}

// In the order in which the other owner unpacks them: by its results, then by member.
void Owner::prepare_outgoing(const Instruction& of, int owner, Prepared& made) {
  const Group group(group_of(of).axes, plan_.mesh);
  const OwnedShards theirs(sharding::distinct_axes(plan_.view(of.results.front()).spec), plan_.mesh, owners_.devices(owner));
  const OwnedShards there(sent_axes(of), plan_.mesh, owners_.devices(owner));
  for (std::size_t i = 0; i < theirs.count(); ++i) {
    for (std::int64_t m = 0; m < group.members(); ++m) {
      const Coordinates from = group.coordinates(theirs.device(i), m);
      if (there.find(from) || owners_.of(from) != self_) continue;
      std::vector<std::pair<ViewId, Coordinates>> operands;
      for (const ViewId operand : of.operands) operands.emplace_back(operand, from);
      const std::size_t first = views_.size();
      made.outgoing.push_back({owner, first, m, group.member(theirs.device(i)), add_views(operands)});
    }
  }
}

void Owner::prepare_copy(const Instruction& of, Prepared& made) {
  const OwnedShards& own = shards(plan_.buffer_of(of.results.front()).distinct);
  for (std::size_t i = 0; i < own.count(); ++i) {
    Launch launch;
    launch.views = views_.size();
    launch.operands = launch.results = 1;
    launch.rows = add_views({{of.operands.front(), own.device(i)}, {of.results.front(), own.device(i)}});
    std::erase_if(launch.rows, [&](const Rows& rows) { return rows.view != launch.views; });
    made.launches.push_back(std::move(launch));
  }
}

// The layouts before and after a collective that copies and adds up whole shards. If devices have values of their own along the
// axes of a sum, these are partial sums.
struct Owner::Layouts {
  sharding::Spec from, to;

  Layouts(const Instruction& of, const plan::Plan& plan) : from(plan.view(of.operands[0]).spec), to(plan.view(of.results[0]).spec) {
    if (of.op != graph::Op::all_sum) return;
    for (const sharding::AxisIndex axis : group_of(of).axes) from.partial.push_back(axis);
    for (const sharding::AxisIndex axis : to.own) from.partial.push_back(axis);
    std::sort(from.partial.begin(), from.partial.end());
    to.partial = to.own;
    from.own.clear();
    to.own.clear();
  }
};

void Owner::prepare_exchange(const Instruction& of, Prepared& made) {
  const Layouts layouts(of, plan_);
  Launch launch;
  launch.views = views_.size();
  const auto add_all = [&](ViewId id, const sharding::Spec& spec) {
    const OwnedShards& own = shards(sharding::distinct_axes(spec));
    for (std::size_t i = 0; i < own.count(); ++i) add_view(id, own.device(i));
    return own.count();
  };
  launch.operands = add_all(of.operands[0], layouts.from);
  launch.results = add_all(of.results[0], layouts.to);
  made.launches.push_back(std::move(launch));
  const transport::Move move{plan_.view(of.operands[0]).shape, layouts.from, layouts.to};
  const auto* how = std::get_if<graph::ReshardOf>(&of.attributes);
  if (how == nullptr || how->kind == graph::ReshardOf::Kind::all_reduce) {
    made.exchanges = Exchange::all_reduce(move, owners_, self_);
  } else {
    made.exchanges.emplace_back(move, owners_, self_);
  }
}

void Owner::count_rows(const std::vector<Rows>& all) {
  for (const Rows& rows : all) {
    const View& counts = views_[rows.counts];
    const auto* numbers = counts.as<std::int32_t>();
    views_[rows.view].shape[0] = std::min(rows.room, std::accumulate(numbers, numbers + counts.count(), std::int64_t{0}));
  }
}

void Owner::advance(InstructionId loop, std::int64_t iterations) {
  for (const Moved& moved : prepared(loop).moved) {
    View& view = views_[moved.view];
    view.data = static_cast<std::byte*>(view.data) + moved.bytes * iterations;
  }
}

void Owner::rewind() {
  for (std::size_t i = 0; i < views_.size(); ++i) views_[i].data = starts_[i];
}

void Owner::end_run(bool is_whole) {
  for (Prepared& of : prepared_) {
    if (is_whole) {
      of.counted.runs += of.of_this_run.runs;
      of.counted.bytes += of.of_this_run.bytes;
    }
    of.of_this_run = {};
  }
}

int Owner::rounds(InstructionId id) const {
  const Prepared& of = prepared_[static_cast<std::size_t>(id)];
  return of.rows != nullptr ? 1 : static_cast<int>(of.exchanges.size());
}

// Devices run in parallel: if the kernel of one does not fill the cores, that of the next one begins.
void Owner::launch(InstructionId id) {
  const Instruction& of = instruction(id);
  const Prepared& made = prepared(id);
  workers_.parallel(static_cast<std::int64_t>(made.launches.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Launch& launch = made.launches[static_cast<std::size_t>(i)];
      count_rows(launch.rows);
      if (of.kind == Kind::copy) {
        run_copy(of, launch);
      } else {
        made.kernel({of.attributes, views(launch.views, launch.operands), views(launch.views + launch.operands, launch.results), workers_,
                     launch.origins, launch.member, launch.members});
      }
    }
  });
}

void Owner::send(InstructionId id, int round) {
  if (wire_ == nullptr) return;
  const Prepared& made = prepared(id);
  if (made.rows != nullptr) return send_rows(instruction(id), made);
  const Launch& launch = made.launches.front();
  const std::size_t first = launch.views + (round == 0 ? 0 : launch.operands);
  made.exchanges[static_cast<std::size_t>(round)].send(views(first, round == 0 ? launch.operands : launch.results), *wire_);
}

void Owner::receive(InstructionId id, int round) {
  Prepared& made = prepared(id);
  made.of_this_run.runs += round == 0 ? 1 : 0;
  if (made.rows != nullptr) return receive_rows(instruction(id), made);
  const Launch& launch = made.launches.front();
  const std::span<const View> to = views(launch.views + launch.operands, launch.results);
  const Exchange& exchange = made.exchanges[static_cast<std::size_t>(round)];
  exchange.run(round == 0 ? views(launch.views, launch.operands) : to, to, &workers_, wire_);
  const std::int64_t bytes = exchange.moved() * size_of(plan_.view(instruction(id).results.front()).dtype);
  made.of_this_run.bytes += bytes;
  if (sent_ == nullptr || instruction(id).op != graph::Op::all_sum) return;
  // Every device sends the same amount.
  const std::vector<Coordinates>& devices = owners_.devices(self_);
  for (const Coordinates& device : devices) {
    (*sent_)[static_cast<std::size_t>(plan_.mesh.device_at(device))] += static_cast<double>(bytes) / static_cast<double>(devices.size());
  }
}

// One message per owner, with everything that its devices need.
void Owner::send_rows(const Instruction& of, const Prepared& made) {
  const auto handed = [&](const Outgoing& out) {
    return Handed{of.op, group_of(of), views(out.views, of.operands.size()), out.from, out.to, plan_.view(of.results.front()).shape[0]};
  };
  for (const Outgoing& out : made.outgoing) count_rows(out.rows);
  for (std::size_t begin = 0; begin < made.outgoing.size();) {
    std::size_t end = begin;
    std::int64_t bytes = 0;
    for (; end < made.outgoing.size() && made.outgoing[end].owner == made.outgoing[begin].owner; ++end) {
      bytes += transport::packed_bytes(handed(made.outgoing[end]));
    }
    std::byte* to = wire_->room(made.outgoing[begin].owner, bytes).data();
    for (; begin < end; ++begin) {
      transport::pack(handed(made.outgoing[begin]), to);
      to += transport::packed_bytes(handed(made.outgoing[begin]));
    }
    wire_->send(made.outgoing[end - 1].owner);
  }
}

void Owner::receive_rows(const Instruction& of, Prepared& made) {
  std::vector<const std::byte*> messages(wire_ == nullptr ? 0 : static_cast<std::size_t>(owners_.count()));
  for (const Launch& launch : made.launches) {
    count_rows(launch.rows);
    unpack(of, launch, messages);
  }
  workers_.parallel(static_cast<std::int64_t>(made.launches.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Launch& launch = made.launches[static_cast<std::size_t>(i)];
      made.rows({of.attributes, views(launch.views, launch.operands), views(launch.views + launch.operands, launch.results), workers_,
                 launch.origins, launch.member, launch.members},
                launch.is_packed);
    }
  });
  for (const Launch& launch : made.launches) count_moved(of, launch, made);
}

// Points the operands of other owners' devices into their messages.
void Owner::unpack(const Instruction& of, const Launch& launch, std::span<const std::byte*> messages) {
  const auto members = static_cast<std::size_t>(launch.members), count = of.operands.size();
  for (std::size_t m = 0; m < members; ++m) {
    const int owner = launch.owners[m];
    if (owner < 0) continue;
    const std::byte*& message = messages[static_cast<std::size_t>(owner)];
    if (message == nullptr) message = wire_->receive(owner).data();
    // Operands that do not travel are this device's own.
    std::vector<View> operands;
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_sent = i < transport::operands_sent(of.op);
      operands.push_back(views_[launch.views + i * members + (is_sent ? m : static_cast<std::size_t>(launch.member))]);
    }
    const Handed handed{of.op, group_of(of), operands, static_cast<std::int64_t>(m), launch.member, 0};
    std::vector<View> there = operands;
    message = transport::unpack(handed, message, there);
    for (std::size_t i = 0; i < transport::operands_sent(of.op); ++i) views_[launch.views + i * members + m] = there[i];
  }
}

// Counts, for each device that gets the result, what the other members of its group send to it.
void Owner::count_moved(const Instruction& of, const Launch& launch, Prepared& made) {
  const auto members = static_cast<std::size_t>(launch.members), count = of.operands.size();
  assert(count <= handed_.size());
  for (std::size_t m = 0; m < members; ++m) {
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_sent = i < transport::operands_sent(of.op);
      handed_[i] = views_[launch.views + i * members + (is_sent ? m : static_cast<std::size_t>(launch.member))];
    }
    for (const Launch::Taker& taker : launch.takers) {
      if (taker.member == static_cast<std::int64_t>(m)) continue;
      const Handed handed{of.op, group_of(of), {handed_.data(), count}, static_cast<std::int64_t>(m), taker.member,
                          plan_.view(of.results.front()).shape[0]};
      const std::int64_t bytes = transport::handed_bytes(handed);
      made.of_this_run.bytes += bytes;
      if (sent_ != nullptr) (*sent_)[static_cast<std::size_t>(taker.senders[m])] += static_cast<double>(bytes);
    }
  }
}

void Owner::run_copy(const Instruction& of, const Launch& launch) const {
  const View& from = views_[launch.views];
  const View& to = views_[launch.views + 1];
  const plan::View& of_from = plan_.view(of.operands.front());
  const plan::View& of_to = plan_.view(of.results.front());
  const auto split = from.shape.begin() + std::max(of_from.split, of_to.split);
  const std::int64_t rows = std::accumulate(from.shape.begin(), split, std::int64_t{1}, std::multiplies<>());
  const std::int64_t bytes = std::accumulate(split, from.shape.end(), std::int64_t{size_of(from.dtype)}, std::multiplies<>());
  const std::int64_t from_pitch = bytes * (of_from.is_dense() ? 1 : of_from.stacked);
  const std::int64_t to_pitch = bytes * (of_to.is_dense() ? 1 : of_to.stacked);
  for (std::int64_t row = 0; row < rows; ++row) {
    copy_bytes(to.raw() + row * to_pitch, from.raw() + row * from_pitch, bytes);
  }
}

Placed Owner::value(ViewId id) const {
  const plan::View& view = plan_.view(id);
  const OwnedShards& own = shards(sharding::distinct_axes(view.spec));
  Placed value{view.shape, view.spec, {}};
  for (std::size_t i = 0; i < own.count(); ++i) {
    const Coordinates& at = own.device(i);
    value.shards.push_back({held_[static_cast<std::size_t>(view.buffer)], {address(view, at), view.dtype, shape_at(view, at)}});
  }
  return value;
}

std::vector<Placed> Owner::made(InstructionId id) const {
  const Instruction& of = instruction(id);
  const Prepared& made = prepared_[static_cast<std::size_t>(id)];
  const OwnedShards& launched = shards(sharding::distinct_axes(plan_.view(of.results.front()).spec));
  std::vector<Placed> all;
  for (std::size_t i = 0; i < of.results.size(); ++i) {
    const plan::View& view = plan_.view(of.results[i]);
    const OwnedShards& own = shards(sharding::distinct_axes(view.spec));
    Placed& value = all.emplace_back(Placed{view.shape, view.spec, {}});
    value.shards.resize(own.count());
    for (std::size_t l = 0; l < launched.count(); ++l) {
      // A collective on whole shards makes all of them in one launch.
      const Launch& launch = made.launches[made.exchanges.empty() ? l : 0];
      const std::size_t at = launch.views + launch.operands + (made.exchanges.empty() ? i : l);
      value.shards[*own.find(launched.device(l))] = {memory_.owner(), views_[at]};
    }
  }
  return all;
}

}  // namespace moesh::run
