#include "run/program.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <numeric>

#include <fmt/core.h>

#include "base/error.h"
#include "plan/lower.h"
#include "run/group.h"
#include "run/plain/plain.h"
#include "run/traffic.h"

namespace moesh::run {
namespace {

using plan::Instruction;
using plan::InstructionId;
using plan::ViewId;
using Kind = Instruction::Kind;

std::int64_t stored_bytes(const plan::Buffer& buffer, const mesh::Mesh& mesh) {
  return buffer.bytes * sharding::shards(buffer.distinct, mesh);
}

std::int64_t arena_bytes(const plan::Buffer& buffer, const mesh::Mesh& mesh, const ProgramOptions& options) {
  const std::int64_t bytes = stored_bytes(buffer, mesh);
  return options.checks_lifetimes && bytes > 0 ? bytes + LifetimeChecks::kGap : bytes;
}

Shape begins(const std::vector<Range>& block) {
  Shape shape;
  for (const Range& range : block) shape.push_back(range.begin);
  return shape;
}

bool moves_shards(const Instruction& of) { return of.op == graph::Op::reshard || of.op == graph::Op::all_sum; }

Kernel kernel_of(const Instruction& instruction) {
  Kernel kernel = find_cpu_kernel(instruction.op);
  if (kernel == nullptr) kernel = plain::find_kernel(instruction.op);
  if (kernel == nullptr) fail(fmt::format("{} cannot be run yet", name_of(instruction.op)), instruction.path);
  return kernel;
}

}  // namespace

Program::Program(plan::Plan plan, std::shared_ptr<State> state, Workers& workers, const ProgramOptions& options)
    : plan_(std::move(plan)),
      state_(std::move(state)),
      workers_(workers),
      arena_(plan::pack(plan_, [&](const plan::Buffer& buffer) { return arena_bytes(buffer, plan_.mesh, options); })),
      memory_(arena_.bytes),
      begins_(plan_.buffers.size()),
      owners_(plan_.buffers.size(), memory_.owner()),
      prepared_(plan_.instructions.size()) {
  for (std::size_t b = 0; b < begins_.size(); ++b) begins_[b] = memory_.at(arena_.offsets[b]);
  for (const plan::Port& port : plan_.ports) {
    if (port.kind != plan::Port::Kind::state) continue;
    const Memory& memory = state_->slot(port, plan_).memory;
    const auto buffer = static_cast<std::size_t>(plan_.view(port.view).buffer);
    begins_[buffer] = memory.at(0);
    owners_[buffer] = memory.owner();
  }
  if (options.checks_lifetimes) {
    std::vector<std::int64_t> bytes;
    for (const plan::Buffer& buffer : plan_.buffers) bytes.push_back(stored_bytes(buffer, plan_.mesh));
    checks_ = std::make_unique<LifetimeChecks>(plan_, begins_, std::move(bytes));
  }
  for (std::size_t i = 0; i < plan_.instructions.size(); ++i) prepare(static_cast<InstructionId>(i));
  for (const View& view : views_) starts_.push_back(view.raw());
}

// The first shard's, before any loop has moved it.
std::byte* Program::address(const plan::View& view, const Coordinates& at) const {
  const plan::Buffer& buffer = plan_.buffer(view.buffer);
  const auto shard = static_cast<std::int64_t>(ShardAxes(buffer.distinct, plan_.mesh).index(at));
  return begins_[static_cast<std::size_t>(view.buffer)] + shard * buffer.bytes;
}

// What a view moves by when a loop goes on.
std::int64_t Program::unit_bytes(const plan::View& view, const Coordinates& at) const {
  const Shape shape = shape_of(block_of(view.shape, view.spec, plan_.mesh, at));
  return std::accumulate(shape.begin() + view.split, shape.end(), std::int64_t{size_of(view.dtype)}, std::multiplies<>());
}

std::size_t Program::add_view(ViewId id, const Coordinates& at) {
  const plan::View& view = plan_.view(id);
  views_.push_back({address(view, at), view.dtype, shape_of(block_of(view.shape, view.spec, plan_.mesh, at))});
  for (const plan::Advance& advance : view.advances) {
    prepared_[static_cast<std::size_t>(advance.loop)].moved.push_back({views_.size() - 1, advance.by * unit_bytes(view, at)});
  }
  return views_.size() - 1;
}

void Program::prepare(InstructionId id) {
  const Instruction& of = instruction(id);
  Prepared& prepared = prepared_[static_cast<std::size_t>(id)];
  switch (of.kind) {
    case Kind::loop:
    case Kind::end: return;
    case Kind::copy: prepare_copy(of, prepared); return;
    case Kind::kernel:
    case Kind::collective: moves_shards(of) ? prepare_exchange(of, prepared) : prepare_kernel(of, prepared); return;
  }
}

// Once for each coordinate along the axes over which a result's shards differ: elsewhere devices would do the same again.
void Program::prepare_kernel(const Instruction& of, Prepared& prepared) {
  prepared.kernel = kernel_of(of);
  const ShardAxes all(plan_.view(of.results.front()).spec, plan_.mesh);
  for (std::size_t index = 0; index < all.count(); ++index) {
    prepared.launches.push_back(prepare_launch(of, all.coordinates(index), all.count()));
  }
}

Program::Launch Program::prepare_launch(const Instruction& of, const Coordinates& at, std::size_t coordinates) {
  const auto* of_group = std::get_if<graph::GroupOf>(&of.attributes);
  const Group all(of_group == nullptr ? sharding::AxisList{} : of_group->axes, plan_.mesh);
  // Only a collective sees what the other members have.
  const Group group = of.kind == Kind::collective ? all : Group({}, plan_.mesh);
  Launch launch;
  launch.views = views_.size();
  launch.member = all.member(at);
  launch.members = group.members();
  std::vector<std::pair<ViewId, Coordinates>> counted;
  for (const ViewId operand : of.operands) {
    for (std::int64_t m = 0; m < group.members(); ++m) counted.emplace_back(operand, group.coordinates(at, m));
  }
  launch.operands = counted.size();
  for (const ViewId result : of.results) counted.emplace_back(result, at);
  launch.results = of.results.size();
  for (const auto& [view, where] : counted) add_view(view, where);
  for (std::size_t i = 0; i < counted.size(); ++i) {
    const ViewId counts = plan_.view(counted[i].first).rows;
    if (counts >= 0) add_rows(launch, launch.views + i, counts, counted[i].second);
  }
  if (coordinates == 1) return launch;
  for (const auto* views : {&of.operands, &of.results}) {
    for (const ViewId view : *views) {
      launch.origins.push_back(begins(block_of(plan_.view(view).shape, plan_.view(view).spec, plan_.mesh, at)));
    }
  }
  return launch;
}

void Program::prepare_copy(const Instruction& of, Prepared& prepared) {
  const ShardAxes all(plan_.buffer_of(of.results.front()).distinct, plan_.mesh);
  for (std::size_t index = 0; index < all.count(); ++index) {
    const Coordinates at = all.coordinates(index);
    Launch launch;
    launch.views = add_view(of.operands.front(), at);
    add_view(of.results.front(), at);
    launch.operands = launch.results = 1;
    if (const ViewId counts = plan_.view(of.operands.front()).rows; counts >= 0) add_rows(launch, launch.views, counts, at);
    prepared.launches.push_back(std::move(launch));
  }
}

// What a collective that copies and adds up whole shards makes of which layout. Devices that have values of their own along the
// axes of a sum have parts of it.
struct Program::Layouts {
  sharding::Spec from, to;

  Layouts(const Instruction& of, const plan::Plan& plan) : from(plan.view(of.operands[0]).spec), to(plan.view(of.results[0]).spec) {
    if (of.op != graph::Op::all_sum) return;
    for (const sharding::AxisIndex axis : std::get<graph::GroupOf>(of.attributes).axes) from.partial.push_back(axis);
    for (const sharding::AxisIndex axis : to.own) from.partial.push_back(axis);
    std::sort(from.partial.begin(), from.partial.end());
    to.partial = to.own;
    from.own.clear();
    to.own.clear();
  }
};

void Program::prepare_exchange(const Instruction& of, Prepared& prepared) {
  const Layouts layouts(of, plan_);
  Launch launch;
  launch.views = views_.size();
  const auto add_all = [&](ViewId id, const sharding::Spec& spec) {
    const ShardAxes axes(spec, plan_.mesh);
    for (std::size_t i = 0; i < axes.count(); ++i) add_view(id, axes.coordinates(i));
    return axes.count();
  };
  launch.operands = add_all(of.operands[0], layouts.from);
  launch.results = add_all(of.results[0], layouts.to);
  prepared.launches.push_back(std::move(launch));
  prepared.exchange.emplace(plan_.view(of.operands[0]).shape, layouts.from, layouts.to, plan_.mesh);
}

void Program::add_rows(Launch& launch, std::size_t view, ViewId counts, const Coordinates& at) {
  launch.rows.push_back({view, add_view(counts, at), views_[view].shape[0]});
}

void Program::count_rows(const Launch& launch) {
  for (const Launch::Rows& rows : launch.rows) {
    const View& counts = views_[rows.counts];
    const auto* numbers = counts.as<std::int32_t>();
    views_[rows.view].shape[0] = std::min(rows.room, std::accumulate(numbers, numbers + counts.count(), std::int64_t{0}));
  }
}

void Program::move(const Prepared& loop, std::int64_t iterations) {
  for (const Moved& moved : loop.moved) {
    View& view = views_[moved.view];
    view.data = static_cast<std::byte*>(view.data) + moved.bytes * iterations;
  }
}

void Program::run(const Observers& observers) {
  if (checks_) checks_->begin_run();
  try {
    if (!run_range(0, static_cast<InstructionId>(plan_.instructions.size()), observers)) rewind();
  } catch (...) {
    rewind();
    if (checks_) checks_->end_run();
    throw;
  }
  if (checks_) checks_->end_run();
}

// A loop that was left on its way starts from its first iteration the next time.
void Program::rewind() {
  for (std::size_t i = 0; i < views_.size(); ++i) views_[i].data = starts_[i];
}

bool Program::run_range(InstructionId begin, InstructionId end, const Observers& observers) {
  for (InstructionId i = begin; i < end; ++i) {
    if (checks_) checks_->before(i);
    if (instruction(i).kind == Kind::loop) {
      if (!run_loop(i, observers)) return false;
      i = instruction(i).other;
    } else {
      if (observers.ends_before && observers.ends_before(instruction(i))) return false;
      run_one(i);
      if (observers.watch || observers.sent != nullptr) tell(i, observers);
    }
    if (checks_) checks_->after(i);
  }
  return true;
}

bool Program::run_loop(InstructionId id, const Observers& observers) {
  const Instruction& loop = instruction(id);
  const Prepared& prepared = prepared_[static_cast<std::size_t>(id)];
  if (loop.reverse) move(prepared, loop.count - 1);
  for (std::int64_t iteration = 0; iteration < loop.count; ++iteration) {
    if (iteration > 0) move(prepared, loop.reverse ? -1 : 1);
    if (!run_range(id + 1, loop.other, observers)) return false;
  }
  if (!loop.reverse) move(prepared, 1 - loop.count);
  return true;
}

void Program::run_one(InstructionId id) {
  const Instruction& of = instruction(id);
  const Prepared& prepared = prepared_[static_cast<std::size_t>(id)];
  for (const Launch& launch : prepared.launches) {
    count_rows(launch);
    if (of.kind == Kind::copy) {
      run_copy(of, launch);
      continue;
    }
    const View* first = views_.data() + launch.views;
    if (prepared.exchange) {
      prepared.exchange->run({first, launch.operands}, {first + launch.operands, launch.results}, &workers_);
    } else {
      prepared.kernel({of.attributes, {first, launch.operands}, {first + launch.operands, launch.results}, workers_, launch.origins,
                       launch.member, launch.members});
    }
  }
}

void Program::tell(InstructionId id, const Observers& observers) const {
  const Instruction& of = instruction(id);
  if (of.kind == Kind::copy) return;
  if (observers.watch) observers.watch(of, placed(id, true));
  if (observers.sent != nullptr && of.kind == Kind::collective) {
    add_traffic(of, placed(id, false), placed(id, true).front(), plan_.mesh, *observers.sent);
  }
}

// The operands or results as they lie now, with as many rows as there are. Of a collective all members' operands are here; each
// shard is taken once.
std::vector<Placed> Program::placed(InstructionId id, bool results) const {
  const Instruction& of = instruction(id);
  const Prepared& prepared = prepared_[static_cast<std::size_t>(id)];
  const std::vector<ViewId>& views = results ? of.results : of.operands;
  std::vector<Placed> all;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const plan::View& view = plan_.view(views[i]);
    Placed& value = all.emplace_back(Placed{view.shape, view.spec, {}});
    if (prepared.exchange) {
      const Launch& launch = prepared.launches.front();
      const std::size_t first = launch.views + (results ? launch.operands : 0);
      for (std::size_t s = 0; s < (results ? launch.results : launch.operands); ++s) value.shards.push_back({memory_.owner(), views_[first + s]});
      continue;
    }
    const ShardAxes axes(view.spec, plan_.mesh), made(plan_.view(of.results.front()).spec, plan_.mesh);
    value.shards.resize(axes.count());
    for (std::size_t l = 0; l < prepared.launches.size(); ++l) {
      const Launch& launch = prepared.launches[l];
      const auto* group = std::get_if<graph::GroupOf>(&of.attributes);
      const Group members(group == nullptr || launch.members == 1 ? sharding::AxisList{} : group->axes, plan_.mesh);
      for (std::int64_t m = 0; m < (results ? 1 : launch.members); ++m) {
        const Coordinates at = results ? made.coordinates(l) : members.coordinates(made.coordinates(l), m);
        const std::size_t place = results ? launch.operands + i : i * static_cast<std::size_t>(launch.members) + static_cast<std::size_t>(m);
        value.shards[axes.index(at)] = {memory_.owner(), views_[launch.views + place]};
      }
    }
  }
  return all;
}

void Program::run_copy(const Instruction& of, const Launch& launch) const {
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
    std::memcpy(to.raw() + row * to_pitch, from.raw() + row * from_pitch, static_cast<std::size_t>(bytes));
  }
}

Placed Program::value(ViewId id) const {
  const plan::View& view = plan_.view(id);
  const ShardAxes axes(view.spec, plan_.mesh);
  Placed value{view.shape, view.spec, {}};
  for (std::size_t i = 0; i < axes.count(); ++i) {
    const Coordinates at = axes.coordinates(i);
    const View shard{address(view, at), view.dtype, shape_of(block_of(view.shape, view.spec, plan_.mesh, at))};
    value.shards.push_back({owners_[static_cast<std::size_t>(view.buffer)], shard});
  }
  return value;
}

Placed Program::value_of(std::string_view name, plan::Port::Kind kind) const {
  const plan::Port* port = plan_.find_port(name, kind);
  return port == nullptr ? Placed{} : value(port->view);
}

namespace {

// Kernels go by the graph's shapes and types, whatever the buffer is.
void feed(const Placed& port, const Placed& value, const std::string& name) {
  if (!value) fail("a program is run without a value for this", name);
  const View& wanted = port.shards.front().view;
  const View& given = value.shards.front().view;
  if (value.shape != port.shape || given.dtype != wanted.dtype) {
    fail(fmt::format("a program takes {} {}, it is given {} {}", name_of(wanted.dtype), to_string(port.shape), name_of(given.dtype),
                     to_string(value.shape)),
         name);
  }
  for (std::size_t i = 0; i < port.shards.size(); ++i) {
    std::memcpy(port.shards[i].raw(), value.shards[i].raw(), static_cast<std::size_t>(port.shards[i].bytes()));
  }
}

}  // namespace

std::int64_t bytes_of(const plan::Plan& plan) {
  std::int64_t state = 0;
  for (const plan::Buffer& buffer : plan.buffers) {
    if (buffer.lasts == plan::Lasts::from_run_to_run) state += stored_bytes(buffer, plan.mesh);
  }
  return state + plan::pack(plan, [&](const plan::Buffer& buffer) { return stored_bytes(buffer, plan.mesh); }).bytes;
}

std::vector<Placed> evaluate(const graph::Graph& graph, const std::vector<Placed>& feeds, const mesh::Mesh& mesh, Workers& workers) {
  Program program(plan::lower(graph, mesh), std::make_shared<State>(), workers, {.checks_lifetimes = true});
  const auto roots = static_cast<std::size_t>(std::count_if(graph.nodes.begin(), graph.nodes.end(), graph::is_root));
  if (feeds.size() > roots) fail(fmt::format("{} values for a program that takes {}", feeds.size(), roots));
  for (std::size_t i = 0; i < roots; ++i) {
    const plan::Port& port = program.plan().ports[i];
    feed(program.value(port.view), i < feeds.size() ? feeds[i] : Placed{}, port.name);
  }
  program.run();
  std::vector<Placed> results;
  for (const ViewId result : program.plan().results) results.push_back(program.value(result));
  return results;
}

std::vector<Array> evaluate(const graph::Graph& graph, const std::vector<Array>& feeds, Workers& workers) {
  std::vector<Placed> placed;
  for (const Array& feed : feeds) placed.push_back({feed ? feed.view.shape : Shape{}, {}, {feed}});
  std::vector<Array> results;
  for (Placed& made : evaluate(graph, placed, mesh::Mesh({}), workers)) results.push_back(std::move(made.shards.front()));
  return results;
}

}  // namespace moesh::run
