#include "run/program.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/core.h>

#include "base/bytes.h"
#include "base/error.h"
#include "graph/print.h"
#include "plan/arena.h"
#include "plan/lower.h"

namespace moesh::run {

using plan::Instruction;
using plan::InstructionId;
using plan::ViewId;

Program::Program(plan::Plan plan, std::shared_ptr<State> state, Workers& workers, const ProgramOptions& options)
    : plan_(std::make_unique<const plan::Plan>(std::move(plan))),
      devices_(std::make_unique<const mesh::Owners>(options.owners.value_or(mesh::Owners(plan_->mesh)))),
      state_(std::move(state)),
      checks_lifetimes_(options.checks_lifetimes),
      processes_(options.processes),
      checks_collectives_(options.checks_collectives) {
  if (processes_ != nullptr) {
    here_ = {processes_->self()};
  } else {
    here_.resize(static_cast<std::size_t>(devices_->count()));
    std::iota(here_.begin(), here_.end(), 0);
    if (devices_->count() > 1) ends_ = transport::connect_in_turns(devices_->count());
  }
  for (const plan::Port& port : plan_->ports) ports_.emplace(std::pair(port.kind, std::string_view(port.name)), &port);
  state_->take(*plan_, *devices_, here_);
  for (const int owner : here_) {
    transport::Endpoint* wire = ends_.empty() ? nullptr : ends_[static_cast<std::size_t>(owner)].get();
    if (processes_ != nullptr) wire = &processes_->wire();
    const Memory* scratch = options.scratch_of == nullptr ? nullptr : &options.scratch_of->owners_[owners_.size()]->memory();
    owners_.push_back(std::make_unique<Owner>(
        Owner::Setup{*plan_, *devices_, owner, *state_, workers, options.backend, options.checks_lifetimes, wire, scratch}));
  }
}

std::int64_t Program::bytes() const {
  std::int64_t sum = 0;
  for (const auto& owner : owners_) sum += owner->bytes();
  return sum;
}

Owner::Count Program::count(InstructionId id) const {
  Owner::Count all{owners_.front()->count(id).runs, 0};
  for (const auto& owner : owners_) all.bytes += owner->count(id).bytes;
  return all;
}

std::vector<std::int64_t> Program::all_bytes() const {
  std::vector<std::int64_t> bytes;
  for (std::size_t id = 0; id < plan_->instructions.size(); ++id) bytes.push_back(count(static_cast<InstructionId>(id)).bytes);
  return processes_ == nullptr ? bytes : processes_->sums(bytes, "at the count of what was sent");
}

template <typename Task>
void Program::by_each(const Task& task) {
  for (const auto& owner : owners_) {
    if (owners_.size() > 1 && open_ != owner.get()) {
      for (const auto& other : owners_) {
        if (other != owner && (open_ == nullptr || open_ == other.get())) other->close(true);
      }
      if (open_ != nullptr) owner->close(false);
      open_ = owner.get();
    }
    task(*owner);
  }
}

void Program::open_all() {
  for (const auto& owner : owners_) {
    if (open_ != nullptr && open_ != owner.get()) owner->close(false);
  }
  open_ = nullptr;
}

void Program::run(const Observers& observers) {
  if (processes_ != nullptr) processes_->wire().set_words([this](const transport::Place& place) { return words(place); });
  if (observers.sent != nullptr) observers.sent->assign(static_cast<std::size_t>(mesh().devices()), 0);
  const auto end = [&](bool is_whole) {
    open_all();
    runs_ += is_whole ? 1 : 0;
    for (const auto& owner : owners_) {
      if (!is_whole) owner->rewind();
      owner->end_run(is_whole);
      owner->count_sent(nullptr);
      if (checks_lifetimes_) owner->checks()->end_run();
    }
  };
  for (const auto& owner : owners_) {
    owner->count_sent(observers.sent);
    if (checks_lifetimes_) owner->checks()->begin_run();
  }
  begin_ = Clock::now();
  bool is_whole = false;
  try {
    is_whole = run_range(0, static_cast<InstructionId>(plan_->instructions.size()), observers);
  } catch (...) {
    end(false);
    throw;
  }
  end(is_whole);
}

bool Program::run_range(InstructionId begin, InstructionId end, const Observers& observers) {
  for (InstructionId i = begin; i < end; ++i) {
    if (checks_lifetimes_) by_each([&](const Owner& owner) { owner.checks()->before(i); });
    if (instruction(i).kind == Instruction::Kind::loop) {
      if (!run_loop(i, observers)) return false;
      i = instruction(i).other;
    } else {
      if (observers.ends_before && observers.ends_before(instruction(i))) return false;
      if (observers.spans != nullptr) run_timed(i, *observers.spans);
      else run_one(i);
      if (observers.watch && instruction(i).kind != Instruction::Kind::copy) tell(i, observers);
    }
    if (checks_lifetimes_) by_each([&](const Owner& owner) { owner.checks()->after(i); });
  }
  return true;
}

bool Program::run_loop(InstructionId id, const Observers& observers) {
  const Instruction& loop = instruction(id);
  const auto advance = [&](std::int64_t iterations) {
    for (const auto& owner : owners_) owner->advance(id, iterations);
  };
  if (loop.reverse) advance(loop.count - 1);
  for (std::int64_t iteration = 0; iteration < loop.count; ++iteration) {
    if (iteration > 0) advance(loop.reverse ? -1 : 1);
    if (!run_range(id + 1, loop.other, observers)) return false;
  }
  if (!loop.reverse) advance(1 - loop.count);
  return true;
}

std::string Program::words(const transport::Place& place) const {
  if (place.instruction < 0 || place.instruction >= static_cast<InstructionId>(plan_->instructions.size())) return "the start";
  const Instruction& of = instruction(place.instruction);
  return fmt::format("instruction {} of step {}, {} of {}", place.instruction, place.run, graph::name_of(of.op), of.path);
}

void Program::check_alike(const transport::Place& place) const {
  const std::vector<std::string> all = processes_->all_say(words(place), words(place));
  for (std::size_t other = 1; other < all.size(); ++other) {
    if (all[other] != all[0]) transport::fail_apart(0, all[0], static_cast<int>(other), all[other]);
  }
}

void Program::run_one(InstructionId id) {
  const int rounds = owners_.front()->rounds(id);
  if (rounds == 0) by_each([&](Owner& owner) { owner.launch(id); });
  for (int round = 0; round < rounds; ++round) {
    if (processes_ != nullptr) {
      const transport::Place place{runs_, id, round};
      processes_->wire().set_place(place);
      if (checks_collectives_ && round == 0) check_alike(place);
    }
    if (devices_->count() > 1) by_each([&](Owner& owner) { owner.send(id, round); });
    by_each([&](Owner& owner) { owner.receive(id, round); });
  }
}

void Program::run_timed(InstructionId id, std::vector<Span>& spans) {
  const double begin = seconds_since(begin_);
  run_one(id);
  spans.push_back({id, begin, seconds_since(begin_)});
}

void Program::tell(InstructionId id, const Observers& observers) {
  open_all();
  std::vector<std::vector<Placed>> of_owners;
  for (const auto& owner : owners_) of_owners.push_back(owner->made(id));
  std::vector<Placed> values;
  for (std::size_t result = 0; result < instruction(id).results.size(); ++result) {
    std::vector<Placed> parts;
    for (const std::vector<Placed>& made : of_owners) parts.push_back(made[result]);
    values.push_back(merged(parts, *devices_, here_));
  }
  observers.watch(instruction(id), values);
}

Placed Program::value(ViewId view) const {
  std::vector<Placed> parts;
  for (const auto& owner : owners_) parts.push_back(owner->value(view));
  return merged(parts, *devices_, here_);
}

void Program::put(ViewId view, const Array& whole) const {
  for (std::size_t owner = 0; owner < owners_.size(); ++owner) {
    place_into(whole, owners_[owner]->value(view), *devices_, here_[owner]);
  }
}

Placed Program::value_of(std::string_view name, plan::Port::Kind kind) const {
  const auto port = ports_.find({kind, name});
  if (port == ports_.end()) return {};
  Placed value = this->value(port->second->view);
  value.first = port->second->first;
  return value;
}

namespace {

// Refuses a value of another shape or type: kernels rely on the graph's, whatever is in the buffer.
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
    copy_bytes(port.shards[i].raw(), value.shards[i].raw(), port.shards[i].bytes());
  }
}

Taken taken(const plan::Plan& plan, const std::function<std::int64_t(const plan::Buffer&)>& stored) {
  Taken bytes{0, plan::pack(plan, stored).bytes};
  for (const plan::Buffer& buffer : plan.buffers) bytes.state += buffer.lasts == plan::Lasts::from_run_to_run ? stored(buffer) : 0;
  return bytes;
}

}  // namespace

Taken bytes_of(const plan::Plan& plan) {
  return taken(plan, [&](const plan::Buffer& buffer) { return buffer.bytes * sharding::shards(buffer.distinct, plan.mesh); });
}

Taken bytes_of(const plan::Plan& plan, const mesh::Owners& owners, const std::vector<int>& here) {
  Taken sum;
  for (const int owner : here) {
    std::map<sharding::AxisList, std::int64_t> shards;
    for (const plan::Buffer& buffer : plan.buffers) {
      std::int64_t& count = shards[buffer.distinct];
      if (count > 0) continue;
      count = static_cast<std::int64_t>(sharding::OwnedShards(buffer.distinct, plan.mesh, owners.devices(owner)).count());
    }
    const Taken own = taken(plan, [&](const plan::Buffer& buffer) { return buffer.bytes * shards.at(buffer.distinct); });
    sum.state += own.state;
    sum.scratch += own.scratch;
  }
  return sum;
}

std::vector<Placed> evaluate(const graph::Graph& graph, const std::vector<Placed>& feeds, const mesh::Mesh& mesh, Workers& workers,
                             const backend::Backend& backend) {
  Program program(plan::lower(graph, mesh), std::make_shared<State>(), workers, {.backend = backend, .checks_lifetimes = true});
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

std::vector<Array> evaluate(const graph::Graph& graph, const std::vector<Array>& feeds, Workers& workers,
                            const backend::Backend& backend) {
  std::vector<Placed> placed;
  for (const Array& feed : feeds) placed.push_back({feed ? feed.view.shape : Shape{}, {}, {feed}});
  std::vector<Array> results;
  for (Placed& made : evaluate(graph, placed, mesh::Mesh({}), workers, backend)) results.push_back(std::move(made.shards.front()));
  return results;
}

}  // namespace moesh::run
