#include "plan/plan.h"

namespace moesh::plan {

std::unordered_map<std::string, ViewId> Plan::views_of_states() const {
  std::unordered_map<std::string, ViewId> all;
  for (const Port& port : ports) {
    if (port.kind == Port::Kind::state) all.emplace(port.name, port.view);
  }
  return all;
}

bool runs_beside_products(const Instruction& instruction) {
  return instruction.kind == Instruction::Kind::collective && instruction.op != graph::Op::reshard;
}

bool only_moves(const Instruction& instruction) {
  return instruction.kind == Instruction::Kind::copy || instruction.op == graph::Op::reshard;
}

const sharding::AxisList& axes_of(const Instruction& collective) {
  const auto* reshard = std::get_if<graph::ReshardOf>(&collective.attributes);
  return reshard != nullptr ? reshard->axes : std::get<graph::GroupOf>(collective.attributes).axes;
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

}  // namespace moesh::plan
