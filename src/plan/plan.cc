#include "plan/plan.h"

#include <algorithm>

namespace moesh::plan {

const Port* Plan::find_port(std::string_view name, Port::Kind kind) const {
  const auto found = std::find_if(ports.begin(), ports.end(), [&](const Port& port) { return port.kind == kind && port.name == name; });
  return found == ports.end() ? nullptr : &*found;
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
