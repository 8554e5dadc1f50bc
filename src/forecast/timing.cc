#include "forecast/timing.h"

#include <algorithm>

#include "cost/collective.h"
#include "cost/kernel.h"
#include "forecast/measured.h"
#include "graph/work.h"

namespace moesh::forecast {
namespace {

using graph::Graph;
using plan::Instruction;
using plan::Plan;

// A graph whose only node is the instruction.
Graph graph_of(const Plan& plan, const Instruction& instruction, const RoutedRows* rows) {
  Graph graph;
  graph::Node node{instruction.op, instruction.path, "", {}, {}, instruction.attributes, instruction.phase};
  const auto add = [&](plan::ViewId id, std::vector<graph::ValueId>& ids) {
    const plan::View& view = plan.view(id);
    ids.push_back(static_cast<graph::ValueId>(graph.values.size()));
    graph.values.push_back({rows ? rows->shape(view) : view.shape, view.dtype, 0, view.spec});
  };
  const std::vector<plan::ViewId>& taken = instruction.operands;
  for (auto id = taken.begin(); id != taken.end(); ++id) {
    const auto first = std::find(taken.begin(), id, *id);
    if (first == id) add(*id, node.operands);
    else node.operands.push_back(node.operands[static_cast<std::size_t>(first - taken.begin())]);
  }
  for (const plan::ViewId id : instruction.results) add(id, node.results);
  graph.nodes.push_back(std::move(node));
  return graph;
}

bool does_something(const Instruction& of) { return of.kind != Instruction::Kind::loop && of.kind != Instruction::Kind::end; }

std::optional<graph::ReshardOf::Kind> collective_of(const Instruction& of) {
  if (of.kind == Instruction::Kind::copy) return std::nullopt;
  return graph::collective_of(of.op, of.attributes);
}

// The work of instructions; `rows` tells how many rows there are in values whose rows are counted at run time.
class Works {
 public:
  Works(const Plan& plan, const RoutedRows& rows) : plan_(plan), rows_(rows) {}

  // The work of a kernel or a copy, on each device.
  graph::Work of(const Instruction& instruction) const {
    if (instruction.kind == Instruction::Kind::copy) {
      graph::Work work;
      work.dtype = plan_.view(instruction.operands[0]).dtype;
      work.bytes = 2 * bytes(instruction.operands[0]);
      return work;
    }
    const Graph there = graph_of(plan_, instruction, &rows_);
    return graph::work_of({there, there.nodes[0]}, plan_.mesh);
  }

  // The bytes that an exchange reads and writes, over all distinct shards.
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
  // The bytes of a device's shard.
  double bytes(plan::ViewId id) const {
    const plan::View& view = plan_.view(id);
    return static_cast<double>(sharding::shard_bytes(rows_.shape(view), view.dtype, view.spec, plan_.mesh));
  }

  const Plan& plan_;
  const RoutedRows& rows_;
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
  Timed(const Plan& plan, const cost::Network& network, const RoutedRows& rows)
      : plan_(plan), network_(network), even_(plan, Router::even), rows_(rows), work_(plan, rows) {}

  Timing time(const Instruction& instruction) const {
    if (!does_something(instruction)) return {};
    if (collective_of(instruction)) return collective(graph_of(plan_, instruction, nullptr), excess(instruction));
    const graph::Work work = work_.of(instruction);
    return {cost::kernel_seconds(work, network_.target().chip), work, {}, {}};
  }

 private:
  // For a collective of routed rows: the rows of the busiest device, relative to those of each device under an even router.
  double excess(const Instruction& instruction) const {
    double most = 1;
    for (const auto* views : {&instruction.operands, &instruction.results}) {
      for (const plan::ViewId id : *views) {
        const plan::View& view = plan_.view(id);
        if (view.rows < 0) continue;
        const auto even = static_cast<double>(std::max<std::int64_t>(1, even_.shape(view)[0]));
        most = std::max(most, static_cast<double>(rows_.shape(view)[0]) / even);
      }
    }
    return most;
  }

  // The sums that scatter_rows sends go to the device that has the token. So they travel in pieces, as in an all-to-all, whatever kind of
  // collective the op is counted as.
  Timing collective(const Graph& graph, double excess) const {
    Timing timing;
    timing.sent = partition::collective_of(graph, graph.nodes[0], plan_.mesh);
    const bool goes_in_pieces = graph.nodes[0].op == graph::Op::scatter_rows;
    const cost::Group& group = network_.group(timing.sent->axes);
    timing.seconds = cost::collective_seconds(goes_in_pieces ? graph::ReshardOf::Kind::all_to_all : timing.sent->kind,
                                              static_cast<double>(timing.sent->operand_bytes), group, excess);
    for (const cost::Level& level : group) timing.links.push_back(level.link);
    return timing;
  }

  const Plan& plan_;
  const cost::Network& network_;
  RoutedRows even_;
  const RoutedRows& rows_;
  Works work_;
};

}  // namespace

std::string_view name_of(graph::KernelKind kind) {
  switch (kind) {
    case graph::KernelKind::product: return "products";
    case graph::KernelKind::attention: return "attention";
    case graph::KernelKind::elementwise: return "elementwise";
    case graph::KernelKind::norm: return "norms and losses";
    case graph::KernelKind::rows: return "rows to and from places";
  }
  return "";
}

std::vector<Timing> timings_of(const Plan& plan, const cost::Network& network, const RoutedRows& rows) {
  const Timed timed(plan, network, rows);
  std::vector<Timing> timings;
  for (const Instruction& instruction : plan.instructions) timings.push_back(timed.time(instruction));
  const mesh::Chip& chip = network.target().chip;
  if (!chip.is_shared_machine()) return timings;
  const RoutedRows even(plan, Router::even);
  const Timed timed_evenly(plan, network, even);
  const std::vector<Task> tasks = tasks_of(plan);
  for (std::size_t i = 0; i < timings.size(); ++i) {
    if (tasks[i].name.empty()) continue;
    const auto seconds = measured_seconds(chip.measured, tasks[i].name, tasks[i].otherwise, tasks[i].work);
    timings[i].seconds = tasks[i].times * (seconds ? *seconds : timed_evenly.time(plan.instructions[i]).seconds);
    timings[i].is_alone = true;
  }
  return timings;
}

std::vector<Timing> timings_of(const Plan& plan, const cost::Network& network) {
  return timings_of(plan, network, RoutedRows(plan, Router::even));
}

// An even router serves for all, since all devices together have the same number of rows whichever experts a router favours.
std::vector<Task> tasks_of(const Plan& plan) {
  const RoutedRows even(plan, Router::even);
  const Works works(plan, even);
  std::vector<Task> tasks;
  for (const Instruction& instruction : plan.instructions) tasks.push_back(task_of(plan, instruction, works));
  return tasks;
}

plan::InstructionId backward_begin(const Plan& plan) {
  bool has_forward = false;
  for (std::size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& instruction = plan.instructions[i];
    if (!does_something(instruction)) continue;
    has_forward = has_forward || instruction.phase == graph::Phase::forward;
    if (has_forward && instruction.phase == graph::Phase::backward) return static_cast<plan::InstructionId>(i);
  }
  return static_cast<plan::InstructionId>(plan.instructions.size());
}

}  // namespace moesh::forecast
