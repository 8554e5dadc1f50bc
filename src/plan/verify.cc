#include "plan/verify.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"
#include "base/place.h"
#include "base/text.h"
#include "graph/facts.h"
#include "graph/words.h"
#include "plan/fields.h"
#include "plan/overwrite.h"

namespace moesh::plan {
namespace {

using graph::Op;
using sharding::AxisList;
using Kind = Instruction::Kind;

constexpr double kMostBufferBytes = 1e18;  // of all buffers together

struct Broken {
  std::string words;
};

template <typename List>
bool holds(const List& list, std::int32_t id) {
  return id >= 0 && at(id) < list.size();
}

bool is_kernel(const Instruction& of) { return of.kind == Kind::kernel || of.kind == Kind::collective; }

using Axes = std::vector<sharding::AxisIndex>;  // may come from a file, so there may be more than a mesh can have

bool are_distinct(std::span<const sharding::AxisIndex> axes) {
  return std::set<sharding::AxisIndex>(axes.begin(), axes.end()).size() == axes.size();
}

Axes all_axes(const sharding::Spec& spec) {
  Axes all(spec.partial.begin(), spec.partial.end());
  for (const AxisList& axes : spec.dims) all.insert(all.end(), axes.begin(), axes.end());
  return all;
}

// Whether two views of one buffer are the same bytes in the same shape. Their counts of rows may differ.
bool are_one_place(const View& a, const View& b) {
  return a.shape == b.shape && a.dtype == b.dtype && a.spec == b.spec && a.advances == b.advances && a.split == b.split &&
         a.stacked == b.stacked;
}

class Verifier {
 public:
  explicit Verifier(const Plan& plan) : plan_(plan), is_written_(plan.buffers.size()), has_port_(plan.buffers.size()) {}

  void run() {
    check_buffers();
    for (std::size_t i = 0; i < plan_.views.size(); ++i) check_view(static_cast<ViewId>(i));
    check_loops();
    for (std::size_t i = 0; i < plan_.views.size(); ++i) check_reach(static_cast<ViewId>(i));
    check_ports();
    for (std::size_t i = 0; i < plan_.instructions.size(); ++i) check_instruction(static_cast<InstructionId>(i));
    check_results();
  }

 private:
  [[noreturn]] static void broken(const std::string& where, const std::string& what) { throw Broken{where + ": " + what}; }

  const Instruction& instruction(InstructionId id) const { return plan_.instructions[at(id)]; }

  static std::string of_view(ViewId id) { return fmt::format("view {}", id); }
  std::string of_buffer(BufferId id) const { return fmt::format("buffer {} ({})", id, plan_.buffer(id).name); }
  std::string of_port(const Port& port) const { return fmt::format("the {} '{}'", name_of(port.kind), port.name); }
  std::string of_instruction(InstructionId id) const {
    const Instruction& of = instruction(id);
    return fmt::format("instruction {} ({} of {})", id, is_kernel(of) ? graph::name_of(of.op) : name_of(of.kind), of.path);
  }

  void check_axes(std::span<const sharding::AxisIndex> axes, const std::string& where) const {
    for (const sharding::AxisIndex axis : axes) {
      if (axis >= plan_.mesh.axes().size())
        broken(where, fmt::format("axis {} of a mesh that has {}", axis, plan_.mesh.axes().size()));
    }
    if (!are_distinct(axes)) broken(where, "an axis stands there twice");
  }

  void check_buffers() const {
    double bytes = 0;
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
      const Buffer& buffer = plan_.buffers[b];
      const std::string where = of_buffer(static_cast<BufferId>(b));
      if (buffer.bytes < 0) broken(where, fmt::format("{} bytes", buffer.bytes));
      check_axes(buffer.distinct, where);
      if (!std::is_sorted(buffer.distinct.begin(), buffer.distinct.end()))
        broken(where, "its distinct axes are not in the mesh's order");
      bytes += static_cast<double>(buffer.bytes);
    }
    if (bytes > kMostBufferBytes) broken("the buffers", "more than 1e18 bytes");
  }

  void check_view(ViewId id) const {
    const View& view = plan_.view(id);
    if (!holds(plan_.buffers, view.buffer))
      broken(of_view(id), fmt::format("buffer {} of {}", view.buffer, plan_.buffers.size()));
    const std::size_t rank = view.shape.size();
    if (std::any_of(view.shape.begin(), view.shape.end(), [](std::int64_t size) { return size < 0; })) {
      broken(of_view(id), fmt::format("its shape is {}", to_string(view.shape)));
    }
    if (!view.spec.dims.empty() && view.spec.dims.size() != rank) {
      broken(of_view(id),
             fmt::format("its spec has {}, its shape {} has {}", counted(static_cast<std::int64_t>(view.spec.dims.size()), "dim"),
                         to_string(view.shape), rank));
    }
    check_axes(all_axes(view.spec), of_view(id));
    check_axes(view.spec.own, of_view(id));
    const AxisList& distinct = plan_.buffer_of(id).distinct;
    if (sharding::distinct_axes(view.spec) != distinct) {
      broken(of_view(id),
             fmt::format("its shards differ along {}, those of {} along {}", axes_words(sharding::distinct_axes(view.spec)),
                         of_buffer(view.buffer), axes_words(distinct)));
    }
    if (view.split < 0 || at(view.split) > rank) broken(of_view(id), fmt::format("split behind dim {} of {}", view.split, rank));
    if (view.stacked < 1) broken(of_view(id), fmt::format("one of {} slices", view.stacked));
    check_rows(id);
  }

  std::string axes_words(const AxisList& axes) const { return graph::Words(&plan_.mesh)(axes); }

  void check_rows(ViewId id) const {
    const View& view = plan_.view(id);
    if (view.rows == -1) return;
    if (!holds(plan_.views, view.rows))
      broken(of_view(id), fmt::format("its rows are counted by view {} of {}", view.rows, plan_.views.size()));
    const View& counts = plan_.view(view.rows);
    if (view.shape.empty()) broken(of_view(id), "a scalar has no rows to be counted");
    if (counts.dtype != DType::int32 || counts.rows != -1)
      broken(of_view(id), fmt::format("its rows are counted by {}, which is no vector of counts", of_view(view.rows)));
  }

  // Loops are nested, and each has its end.
  void check_loops() const {
    std::vector<InstructionId> open;
    for (std::size_t i = 0; i < plan_.instructions.size(); ++i) {
      const auto id = static_cast<InstructionId>(i);
      const Instruction& of = instruction(id);
      if (of.kind == Kind::loop) {
        if (of.count < 1) broken(of_instruction(id), fmt::format("it runs {} times", of.count));
        if (!holds(plan_.instructions, of.other) || instruction(of.other).kind != Kind::end ||
            instruction(of.other).other != id) {
          broken(of_instruction(id), fmt::format("its end is to be instruction {}, which is no end of it", of.other));
        }
        open.push_back(id);
      } else if (of.kind == Kind::end) {
        if (open.empty() || instruction(open.back()).other != id)
          broken(of_instruction(id), "it does not end the loop that it stands in");
        open.pop_back();
      } else if (of.count != 1 || of.reverse || of.other != -1) {
        broken(of_instruction(id), "only a loop has a count, a direction and an end");
      }
    }
    if (!open.empty()) broken(of_instruction(open.back()), "it has no end");
  }

  // In every iteration the view is inside its buffer. Computed in double, since sizes that it does not hold are too large anyway.
  void check_reach(ViewId id) const {
    const View& view = plan_.view(id);
    const Shape shard = sharding::shard_shape(view.shape, view.spec, plan_.mesh);
    const auto product = [&](std::size_t begin, std::size_t end) {
      double made = 1;
      for (std::size_t dim = begin; dim < end; ++dim) made *= static_cast<double>(shard[dim]);
      return made;
    };
    const double outer = product(0, at(view.split)),
                 unit = product(at(view.split), shard.size()) * static_cast<double>(size_of(view.dtype));
    double moves = 0;
    for (const Advance& advance : view.advances) {
      if (!holds(plan_.instructions, advance.loop) || instruction(advance.loop).kind != Kind::loop) {
        broken(of_view(id), fmt::format("it moves on with instruction {}, which is no loop", advance.loop));
      }
      if (advance.by < 1) broken(of_view(id), fmt::format("it moves on by {}", advance.by));
      moves += static_cast<double>(instruction(advance.loop).count - 1) * static_cast<double>(advance.by);
    }
    const double end = outer * unit == 0 ? 0 : ((outer - 1) * static_cast<double>(view.stacked) + moves + 1) * unit;
    const auto bytes = static_cast<double>(plan_.buffer_of(id).bytes);
    if (end > bytes)
      broken(of_view(id), fmt::format("it reaches to byte {:.0f} of {}, which has {:.0f}", end, of_buffer(view.buffer), bytes));
  }

  void check_ports() {
    std::set<std::pair<Port::Kind, std::string>> names;
    for (const Port& port : plan_.ports) {
      if (!holds(plan_.views, port.view)) broken(of_port(port), fmt::format("view {} of {}", port.view, plan_.views.size()));
      if (!port.name.empty() && !names.emplace(port.kind, port.name).second) broken(of_port(port), "there are two of that name");
      const View& view = plan_.view(port.view);
      const Lasts wanted = port.kind == Port::Kind::state   ? Lasts::from_run_to_run
                           : port.kind == Port::Kind::input ? Lasts::as_input
                                                            : Lasts::as_output;
      if (plan_.buffer(view.buffer).lasts != wanted) {
        broken(of_port(port), fmt::format("{} lasts as {}", of_buffer(view.buffer), name_of(plan_.buffer(view.buffer).lasts)));
      }
      if (!view.is_dense() || !view.advances.empty() || view.rows != -1) broken(of_port(port), "it is a slice of a value");
      if (port.first < 0 || port.first >= std::max<std::int64_t>(1, static_cast<std::int64_t>(view.shape.size()))) {
        broken(of_port(port), fmt::format("dim {} of {} comes first", port.first, view.shape.size()));
      }
      if (has_port_[at(view.buffer)]) broken(of_port(port), fmt::format("{} has another port", of_buffer(view.buffer)));
      has_port_[at(view.buffer)] = true;
    }
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
      const Lasts lasts = plan_.buffers[b].lasts;
      if (lasts != Lasts::within && !has_port_[b])
        broken(of_buffer(static_cast<BufferId>(b)), fmt::format("a buffer that lasts as {} without a port", name_of(lasts)));
      is_written_[b] = lasts == Lasts::from_run_to_run || lasts == Lasts::as_input;
    }
  }

  void check_instruction(InstructionId id) {
    const Instruction& of = instruction(id);
    if (of.kind == Kind::loop) open_.push_back(id);
    if (of.kind == Kind::end) open_.pop_back();
    for (const auto* views : {&of.operands, &of.results}) {
      for (const ViewId view : *views) check_use(id, view);
    }
    if (is_kernel(of)) check_kernel(id);
    if (!is_kernel(of) && of.attributes.index() != 0) broken(of_instruction(id), "only a kernel or a collective has attributes");
    if (of.kind == Kind::copy) check_copy(id);
    if ((of.kind == Kind::loop || of.kind == Kind::end) && !(of.operands.empty() && of.results.empty())) {
      broken(of_instruction(id), "it has operands or results");
    }
    check_places(id);
    check_order(id);
  }

  void check_use(InstructionId id, ViewId view) const {
    if (!holds(plan_.views, view)) broken(of_instruction(id), fmt::format("view {} of {}", view, plan_.views.size()));
    for (const ViewId used : {view, plan_.view(view).rows}) {
      if (used < 0) continue;
      for (const Advance& advance : plan_.view(used).advances) {
        if (std::find(open_.begin(), open_.end(), advance.loop) == open_.end()) {
          broken(of_instruction(id), fmt::format("{} moves on with the loop of instruction {}, which does not stand around it",
                                                 of_view(used), advance.loop));
        }
      }
    }
  }

  void check_kernel(InstructionId id) const {
    const Instruction& of = instruction(id);
    if (graph::facts_of(of.op).becomes != graph::Becomes::instruction)
      broken(of_instruction(id), fmt::format("{} is no kernel", graph::name_of(of.op)));
    if (of.results.empty()) broken(of_instruction(id), "it makes nothing");
    graph::Graph graph;
    graph::Node node{of.op, of.path, "", {}, {}, of.attributes, graph::Phase::forward};
    const auto add = [&](const std::vector<ViewId>& views, std::vector<graph::ValueId>& to) {
      for (const ViewId view : views) {
        if (!plan_.view(view).is_dense()) broken(of_instruction(id), fmt::format("{} is not dense", of_view(view)));
        to.push_back(static_cast<graph::ValueId>(graph.values.size()));
        graph.values.push_back({plan_.view(view).shape, plan_.view(view).dtype, 0, plan_.view(view).spec});
      }
    };
    add(of.operands, node.operands);
    add(of.results, node.results);
    const std::string problem = graph::problem_of({graph, node});
    if (!problem.empty()) broken(of_instruction(id), fmt::format("{} does not fit its operands and results", problem));
    const bool is_collective = of.op == Op::reshard || graph::collective_of(of.op, of.attributes);
    if (is_collective != (of.kind == Kind::collective))
      broken(of_instruction(id), fmt::format("it is {} collective", is_collective ? "a" : "no"));
    if (const auto* group = std::get_if<graph::GroupOf>(&of.attributes)) check_axes(group->axes, of_instruction(id));
    if (const auto* reshard = std::get_if<graph::ReshardOf>(&of.attributes)) check_axes(reshard->axes, of_instruction(id));
    if (!is_collective) check_coordinates(id);
  }

  // A kernel runs once for each shard of its first result, and that shard determines the shards of all operands and other results.
  void check_coordinates(InstructionId id) const {
    const Instruction& of = instruction(id);
    const AxisList& first = plan_.buffer_of(of.results[0]).distinct;
    for (const ViewId operand : of.operands) {
      const AxisList& own = plan_.buffer_of(operand).distinct;
      if (!std::includes(first.begin(), first.end(), own.begin(), own.end())) {
        broken(of_instruction(id), fmt::format("shards of {} differ along {}, those of its first result only along {}",
                                               of_view(operand), axes_words(own), axes_words(first)));
      }
    }
    for (const ViewId result : of.results) {
      if (plan_.buffer_of(result).distinct != first)
        broken(of_instruction(id), "shards of its results differ along different axes");
    }
  }

  void check_copy(InstructionId id) const {
    const Instruction& of = instruction(id);
    if (of.operands.size() != 1 || of.results.size() != 1) broken(of_instruction(id), "a copy has one operand and one result");
    const View &from = plan_.view(of.operands[0]), &to = plan_.view(of.results[0]);
    if (from.dtype != to.dtype || from.shape != to.shape || from.spec != to.spec)
      broken(of_instruction(id), "a copy is of another shape, type or layout");
  }

  void check_places(InstructionId id) const {
    const Instruction& of = instruction(id);
    for (std::size_t r = 0; r < of.results.size(); ++r) {
      const View& result = plan_.view(of.results[r]);
      for (std::size_t other = 0; other < r; ++other) {
        if (plan_.view(of.results[other]).buffer == result.buffer)
          broken(of_instruction(id), fmt::format("two results lie in {}", of_buffer(result.buffer)));
      }
      for (std::size_t o = 0; o < of.operands.size(); ++o) {
        const View& operand = plan_.view(of.operands[o]);
        if (operand.buffer != result.buffer) continue;
        const bool may = is_kernel(of) && may_lie_in(of.op, o, r);
        if (!may || !are_one_place(operand, result)) {
          broken(of_instruction(id),
                 fmt::format("result {} is made in {}, where operand {} lies", r, of_buffer(result.buffer), o));
        }
      }
    }
  }

  void check_order(InstructionId id) {
    const Instruction& of = instruction(id);
    const auto read = [&](ViewId view) {
      const BufferId buffer = plan_.view(view).buffer;
      if (!is_written_[at(buffer)])
        broken(of_instruction(id), fmt::format("{} is read, and nothing was written to it", of_buffer(buffer)));
    };
    for (const auto* views : {&of.operands, &of.results}) {
      for (const ViewId view : *views) {
        if (views == &of.operands) read(view);
        if (plan_.view(view).rows >= 0) read(plan_.view(view).rows);
      }
    }
    for (const ViewId result : of.results) {
      const BufferId buffer = plan_.view(result).buffer;
      if (plan_.buffer(buffer).lasts == Lasts::as_input)
        broken(of_instruction(id), fmt::format("it writes to {}, which is an input", of_buffer(buffer)));
      is_written_[at(buffer)] = true;
    }
  }

  void check_results() const {
    for (const Port& port : plan_.ports) {
      if (port.kind == Port::Kind::output && !is_written_[at(plan_.view(port.view).buffer)])
        broken(of_port(port), "nothing is written to it");
    }
    for (std::size_t i = 0; i < plan_.results.size(); ++i) {
      const auto gives = [&](const Port& port) { return port.kind != Port::Kind::input && port.view == plan_.results[i]; };
      if (std::none_of(plan_.ports.begin(), plan_.ports.end(), gives)) {
        broken(fmt::format("result {}", i), fmt::format("view {} is neither a state nor an output", plan_.results[i]));
      }
    }
  }

  const Plan& plan_;
  std::vector<bool> is_written_;  // by buffer: whether it was written before the instruction that is being checked
  std::vector<bool> has_port_;
  std::vector<InstructionId> open_;  // the loops around that instruction
};

}  // namespace

std::string broken_rule(const Plan& plan) {
  try {
    Verifier(plan).run();
  } catch (const Broken& broken) {
    return broken.words;
  }
  return "";
}

void verify(const Plan& plan) {
  const std::string rule = broken_rule(plan);
  if (!rule.empty()) fail("the plan breaks a rule: " + rule, "lowering", "report this");
}

}  // namespace moesh::plan
