#include "forecast/timing.h"

#include "cost/collective.h"
#include "cost/kernel.h"
#include "forecast/even_rows.h"
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

class Timed {
 public:
  Timed(const Plan& plan, const cost::Network& network) : plan_(plan), network_(network), even_(plan) {}

  Timing time(const Instruction& instruction) const {
    switch (instruction.kind) {
      case Instruction::Kind::loop:
      case Instruction::Kind::end: return {};
      case Instruction::Kind::copy: return kernel(copy_work(instruction));
      case Instruction::Kind::kernel:
      case Instruction::Kind::collective: break;
    }
    const Graph shapes = graph_of(plan_, instruction, nullptr);
    if (graph::collective_of(shapes.nodes[0])) return collective(shapes);
    const Graph even = graph_of(plan_, instruction, &even_);
    return kernel(graph::work_of({even, even.nodes[0]}, plan_.mesh));
  }

 private:
  graph::Work copy_work(const Instruction& instruction) const {
    graph::Work work;
    const plan::View& view = plan_.view(instruction.operands[0]);
    work.bytes = 2 * static_cast<double>(elements(sharding::shard_shape(even_.shape(view), view.spec, plan_.mesh)) *
                                         size_of(view.dtype));
    return work;
  }

  Timing kernel(const graph::Work& work) const {
    return {cost::kernel_seconds(work, network_.target().chip), work, {}, {}};
  }

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
  EvenRows even_;
};

}  // namespace

std::vector<Timing> timings_of(const Plan& plan, const cost::Network& network) {
  const Timed timed(plan, network);
  std::vector<Timing> timings;
  for (const Instruction& instruction : plan.instructions) timings.push_back(timed.time(instruction));
  return timings;
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
