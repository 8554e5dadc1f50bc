#include "forecast/unheld.h"

#include <algorithm>
#include <cmath>

#include "base/rounding.h"
#include "forecast/memory.h"

namespace moesh::forecast {
namespace {

constexpr std::int64_t kFloat32 = 4;

// The bytes of what one instruction would hold.
Unheld missing_at(const plan::Plan& plan, const plan::Instruction& instruction, const sharding::Spec& input, const Materialised& there) {
  if (instruction.kind != plan::Instruction::Kind::kernel) return {};
  const auto shard = [&](std::size_t operand) {
    const plan::View& view = plan.view(instruction.operands[operand]);
    return sharding::shard_shape(view.shape, view.spec, plan.mesh);
  };
  Unheld missing;
  if (instruction.op == graph::Op::vocab_loss || instruction.op == graph::Op::vocab_loss_grad) {
    const Shape tokens = shard(0), table = shard(1);
    const std::int64_t width = tokens.back();
    missing.logits = there.bytes_of_logit * (elements(tokens) / width) * (elements(table) / width) / there.vocab_parts;
  } else if (instruction.op == graph::Op::attention && there.scores) {
    const Shape query_BSHD = shard(0), keys_BTHD = shard(1);
    missing.scores = kFloat32 * query_BSHD[0] * query_BSHD[1] * query_BSHD[2] * keys_BTHD[1];
  } else if (instruction.op == graph::Op::embed && there.one_hot) {
    // In MaxText rows lie as the input does, while a plan may look up all tokens in a part of the table's columns.
    const std::int64_t tokens = divide_up(elements(plan.view(instruction.operands[1]).shape), sharding::shards(input, plan.mesh));
    missing.one_hot = tokens * shard(0)[0] * size_of(plan.view(instruction.results[0]).dtype);
  }
  return missing;
}

// The most that lives while the backward pass runs.
std::int64_t most_of_backward(const std::vector<plan::Instruction>& instructions, const std::vector<Components>& course) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    if (instructions[i].phase == graph::Phase::backward) most = std::max(most, total(course[i]));
  }
  return most;
}

}  // namespace

Unheld unheld_of(const Resident& resident, const sharding::Layout& layout, const Materialised& there) {
  const std::vector<plan::Instruction>& instructions = resident.plan.instructions;
  Unheld all;
  std::vector<Components> course;
  if (there.passes > 1) {
    course = memory_course(resident, layout);
    for (const sharding::LaidTensor& parameter : layout.parameters) all.gradients += sharding::bytes_per_device(parameter, layout.mesh);
    all.moments.push_back({most_of_backward(instructions, course), all.gradients});
  }
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const Unheld here = missing_at(resident.plan, instructions[i], layout.input.spec, there);
    const std::int64_t missing = here.logits + here.scores + here.one_hot;
    if (missing == 0) continue;
    if (course.empty()) course = memory_course(resident, layout);
    all.logits = std::max(all.logits, here.logits);
    all.scores = std::max(all.scores, here.scores);
    all.one_hot = std::max(all.one_hot, here.one_hot);
    all.moments.push_back({total(course[i]), missing});
  }
  return all;
}

std::int64_t peak_of_xla(std::int64_t planned, const Unheld& unheld) {
  double peak = kTakenByXla * static_cast<double>(planned);
  for (const Unheld::Moment& moment : unheld.moments)
    peak = std::max(peak, kTakenByXla * static_cast<double>(moment.live) + static_cast<double>(moment.missing));
  return std::llround(peak);
}

}  // namespace moesh::forecast
