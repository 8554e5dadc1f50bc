#include "forecast/timing.h"

#include "cost/collective.h"
#include "cost/kernel.h"
#include "forecast/even_rows.h"
#include "forecast/measured.h"
#include "graph/work.h"

namespace moesh::forecast {
namespace {

using graph::Graph;
using plan::Instruction;
using plan::Plan;

// An instruction as a graph of its one node.
Graph graph_of(const Plan& plan, const Instruction& instruction, const EvenRows* even) {
  Graph graph;
  graph::Node node{instruction.op, instruction.path, "", {}, {}, instruction.attributes, instruction.phase};
  const auto add = [&](plan::ViewId id, std::vector<graph::ValueId>& ids) {
    const plan::View& view = plan.view(id);
    ids.push_back(static_cast<graph::ValueId>(graph.values.size()));
    graph.values.push_back({even ? even->shape(view) : view.shape, view.dtype, 0, view.spec});
  };
  for (const plan::ViewId id : instruction.operands) add(id, node.operands);
  for (const plan::ViewId id : instruction.results) add(id, node.results);
  graph.nodes.push_back(std::move(node));
  return graph;
}

bool does_something(const Instruction& of) { return of.kind != Instruction::Kind::loop && of.kind != Instruction::Kind::end; }

std::optional<graph::ReshardOf::Kind> collective_of(const Instruction& of) {
  if (of.kind == Instruction::Kind::copy) return std::nullopt;
  return graph::collective_of({of.op, of.path, "", {}, {}, of.attributes, of.phase});
}

// What instructions have devices do, where a router favours no expert.
class Works {
 public:
  explicit Works(const Plan& plan) : plan_(plan), even_(plan) {}

  // Of a kernel or a copy, on each device.
  graph::Work of(const Instruction& instruction) const {
    if (instruction.kind == Instruction::Kind::copy) {
      graph::Work work;
      work.dtype = plan_.view(instruction.operands[0]).dtype;
      work.bytes = 2 * bytes(instruction.operands[0]);
      return work;
    }
    const Graph even = graph_of(plan_, instruction, &even_);
    return graph::work_of({even, even.nodes[0]}, plan_.mesh);
  }

  // That an exchange reads and writes, of all devices.
  double exchanged(const Instruction& instruction) const {
    double sum = 0;
    for (const auto* ids : {&instruction.operands, &instruction.results}) {
      for (const plan::ViewId id : *ids) sum += bytes(id) * distinct_shards(id);
    }
    return sum;
  }

  double distinct_shards(plan::ViewId id) const {
    return static_cast<double>(sharding::shards(sharding::distinct_axes(plan_.view(id).spec), plan_.mesh));
  }

 private:
  // Of a device's shard.
  double bytes(plan::ViewId id) const {
    const plan::View& view = plan_.view(id);
    return static_cast<double>(elements(sharding::shard_shape(even_.shape(view), view.spec, plan_.mesh)) * size_of(view.dtype));
  }

  const Plan& plan_;
  EvenRows even_;
};

Task task_of(const Plan& plan, const Instruction& instruction, const Works& works) {
  if (!does_something(instruction)) return {};
  const DType dtype = plan.view(instruction.operands.empty() ? instruction.results[0] : instruction.operands[0]).dtype;
  if (const auto kind = collective_of(instruction))
    return {timed_name(name_of(*kind), dtype), timed_name("any exchange", dtype), works.exchanged(instruction)};
  const graph::Work work = works.of(instruction);
  return {timed_name(work.op, work.dtype), timed_name(work.kind, work.dtype), measure_of(work),
          works.distinct_shards(instruction.results.front())};
}

class Timed {
 public:
  Timed(const Plan& plan, const cost::Network& network) : plan_(plan), network_(network), work_(plan) {}

  Timing time(const Instruction& instruction) const {
    if (!does_something(instruction)) return {};
    if (collective_of(instruction)) return collective(graph_of(plan_, instruction, nullptr));
    const graph::Work work = work_.of(instruction);
    return {cost::kernel_seconds(work, network_.target().chip), work, {}, {}};
  }

 private:
  // Sums for tokens go to whoever has the token: pieces for each device, however they are counted.
  Timing collective(const Graph& graph) const {
    Timing timing;
    timing.sent = partition::collective_of(graph, graph.nodes[0], plan_.mesh);
    const bool goes_in_pieces = graph.nodes[0].op == graph::Op::scatter_rows;
    const cost::Group& group = network_.group(timing.sent->axes);
    timing.seconds = cost::collective_seconds(goes_in_pieces ? graph::ReshardOf::Kind::all_to_all : timing.sent->kind,
                                              static_cast<double>(timing.sent->operand_bytes), group);
    for (const cost::Level& level : group) timing.links.push_back(level.link);
    return timing;
  }

  const Plan& plan_;
  const cost::Network& network_;
  Works work_;
};

}  // namespace

std::vector<Timing> timings_of(const Plan& plan, const cost::Network& network) {
  const Timed timed(plan, network);
  std::vector<Timing> timings;
  for (const Instruction& instruction : plan.instructions) timings.push_back(timed.time(instruction));
  const mesh::Chip& chip = network.target().chip;
  if (!chip.is_shared_machine()) return timings;
  const std::vector<Task> tasks = tasks_of(plan);
  for (std::size_t i = 0; i < timings.size(); ++i) {
    if (tasks[i].name.empty()) continue;
    const auto seconds = measured_seconds(chip.measured, tasks[i].name, tasks[i].otherwise, tasks[i].work);
    timings[i].seconds = tasks[i].times * seconds.value_or(timings[i].seconds);
    timings[i].is_alone = true;
  }
  return timings;
}

std::vector<Task> tasks_of(const Plan& plan) {
  const Works works(plan);
  std::vector<Task> tasks;
  for (const Instruction& instruction : plan.instructions) tasks.push_back(task_of(plan, instruction, works));
  return tasks;
}

std::vector<std::int64_t> runs_of(const Plan& plan) {
  std::vector<std::int64_t> runs;
  std::vector<std::int64_t> open{1};
  for (const Instruction& instruction : plan.instructions) {
    if (instruction.kind == Instruction::Kind::end) open.pop_back();
    runs.push_back(open.back());
    if (instruction.kind == Instruction::Kind::loop) open.push_back(open.back() * instruction.count);
  }
  return runs;
}

}  // namespace moesh::forecast
