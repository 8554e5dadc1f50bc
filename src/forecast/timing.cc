#include "forecast/timing.h"

#include <algorithm>

#include "cost/collective.h"
#include "cost/kernel.h"
#include "graph/work.h"

namespace moesh::forecast {
namespace {

using graph::Graph;
using plan::Instruction;
using plan::Plan;

// An instruction as a graph of its one node.
Graph graph_of(const Plan& plan, const Instruction& instruction, const RoutedRows* rows) {
  Graph graph;
  graph::Node node{instruction.op, instruction.path, "", {}, {}, instruction.attributes, instruction.phase};
  const auto add = [&](plan::ViewId id, std::vector<graph::ValueId>& ids) {
    const plan::View& view = plan.view(id);
    ids.push_back(static_cast<graph::ValueId>(graph.values.size()));
    graph.values.push_back({rows ? rows->shape(view) : view.shape, view.dtype, 0, view.spec});
  };
  for (const plan::ViewId id : instruction.operands) add(id, node.operands);
  for (const plan::ViewId id : instruction.results) add(id, node.results);
  graph.nodes.push_back(std::move(node));
  return graph;
}

class Timed {
 public:
  Timed(const Plan& plan, const cost::Network& network, const RoutedRows& rows)
      : plan_(plan), network_(network), even_(plan, Router::even), rows_(rows) {}

  Timing time(const Instruction& instruction) const {
    switch (instruction.kind) {
      case Instruction::Kind::loop:
      case Instruction::Kind::end: return {};
      case Instruction::Kind::copy: return kernel(copy_work(instruction));
      case Instruction::Kind::kernel:
      case Instruction::Kind::collective: break;
    }
    const Graph shapes = graph_of(plan_, instruction, nullptr);
    if (graph::collective_of(shapes.nodes[0])) return collective(shapes, excess(instruction));
    const Graph there = graph_of(plan_, instruction, &rows_);
    return kernel(graph::work_of({there, there.nodes[0]}, plan_.mesh));
  }

 private:
  graph::Work copy_work(const Instruction& instruction) const {
    graph::Work work;
    const plan::View& view = plan_.view(instruction.operands[0]);
    work.bytes = 2 * static_cast<double>(elements(sharding::shard_shape(rows_.shape(view), view.spec, plan_.mesh)) *
                                         size_of(view.dtype));
    return work;
  }

  Timing kernel(const graph::Work& work) const {
    return {cost::kernel_seconds(work, network_.target().chip), work, {}, {}};
  }

  // Of a collective of rows: those of the device that has the most, by those of each under an even router.
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

  // Sums for tokens go to whoever has the token: pieces for each device, however they are counted.
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
};

}  // namespace

std::vector<Timing> timings_of(const Plan& plan, const cost::Network& network, const RoutedRows& rows) {
  const Timed timed(plan, network, rows);
  std::vector<Timing> timings;
  for (const Instruction& instruction : plan.instructions) timings.push_back(timed.time(instruction));
  return timings;
}

std::vector<Timing> timings_of(const Plan& plan, const cost::Network& network) {
  return timings_of(plan, network, RoutedRows(plan, Router::even));
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
