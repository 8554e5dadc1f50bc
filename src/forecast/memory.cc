#include "forecast/memory.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/place.h"
#include "forecast/timing.h"
#include "graph/facts.h"

namespace moesh::forecast {
namespace {

using plan::aligned;
using plan::BufferId;
using plan::Instruction;
using plan::InstructionId;
using plan::Lasts;
using plan::Lifetime;
using plan::Plan;

// How the buffers of a plan are used.
class Uses {
 public:
  Uses(const Plan& plan, const sharding::Layout& layout)
      : plan_(plan),
        lives_(plan::lifetimes_of(plan)),
        made_by_(plan.buffers.size(), -1),
        parameter_(plan.buffers.size()),
        is_stack_(plan.buffers.size()),
        cast_to_(plan.buffers.size(), -1),
        backward_(backward_begin(plan)),
        update_(static_cast<InstructionId>(plan.instructions.size())) {
    find_state(layout);
    for (InstructionId i = 0; i < static_cast<InstructionId>(plan.instructions.size()); ++i) see(i);
  }

  const Lifetime& life(BufferId buffer) const { return lives_[at(buffer)]; }
  const std::vector<Lifetime>& lives() const { return lives_; }
  bool is_state(BufferId buffer) const { return plan_.buffer(buffer).lasts == Lasts::from_run_to_run; }
  // State is stored outside the arena, in which all other buffers are aligned.
  std::int64_t bytes(BufferId buffer) const {
    const std::int64_t own = plan_.buffer(buffer).bytes;
    return is_state(buffer) ? own : aligned(own);
  }
  // The path of the instruction that writes to it first, which for a stack makes the slice of one iteration.
  const std::string& name(BufferId buffer) const {
    const InstructionId made = made_by_[at(buffer)];
    return made < 0 ? plan_.buffer(buffer).name : plan_.instructions[at(made)].path;
  }

  // The view that is written first; -1 if nothing writes to the buffer.
  plan::ViewId first_view(BufferId buffer) const {
    const InstructionId made = made_by_[at(buffer)];
    if (made < 0) return -1;
    const std::vector<plan::ViewId>& results = plan_.instructions[at(made)].results;
    return *std::find_if(results.begin(), results.end(),
                         [&](plan::ViewId id) { return plan_.view(id).buffer == buffer; });
  }

  Component component(BufferId id) const {
    const plan::Buffer& buffer = plan_.buffer(id);
    switch (buffer.lasts) {
      case Lasts::from_run_to_run:
        return parameter_[at(id)]               ? Component::parameters
               : moments_.contains(buffer.name) ? Component::optimizer_state
               : caches_.contains(buffer.name)  ? Component::kv_cache
                                                : Component::other_state;
      case Lasts::as_input: return Component::batch;
      case Lasts::as_output: return Component::results;
      case Lasts::within: break;
    }
    if (moments_.contains(buffer.name)) return Component::optimizer_state;  // an offloaded moment, which comes for its update
    if (parameter_[at(id)]) return Component::weights_in_use;
    const Lifetime& life = lives_[at(id)];
    const InstructionId made = made_by_[at(id)];
    const bool is_backward = made >= 0 && plan_.instructions[at(made)].phase == graph::Phase::backward;
    if (life.first < backward_ && life.last >= backward_ && !is_backward) return Component::saved_activations;
    if (life.first < update_ && is_backward && last_of_casts(id) >= update_) return Component::gradients;
    return Component::working_values;
  }

 private:
  // The last use of the buffer or, if it is a stack that is then cast as a whole, as gradients are to grad_dtype, of what it is cast to.
  InstructionId last_of_casts(BufferId id) const {
    while (cast_to_[at(id)] >= 0) id = cast_to_[at(id)];
    return lives_[at(id)].last;
  }

  void find_state(const sharding::Layout& layout) {
    std::set<std::string> parameters;
    for (const sharding::LaidTensor& tensor : layout.parameters) parameters.insert(tensor.path);
    for (const sharding::LaidTensor& tensor : layout.moments) moments_.insert(tensor.path);
    for (const sharding::LaidTensor& tensor : layout.states) caches_.insert(tensor.path);
    for (const plan::Port& port : plan_.ports) {
      if (port.kind == plan::Port::Kind::state && parameters.contains(port.name))
        parameter_[at(plan_.view(port.view).buffer)] = true;
    }
  }

  void see(InstructionId i) {
    const Instruction& instruction = plan_.instructions[at(i)];
    if (instruction.kind == Instruction::Kind::loop) ++loops_;
    if (instruction.kind == Instruction::Kind::end) --loops_;
    if (instruction.kind == Instruction::Kind::loop || instruction.kind == Instruction::Kind::end) return;
    if (instruction.phase == graph::Phase::update && backward_ < i) update_ = std::min(update_, i);
    for (const plan::ViewId id : instruction.results) {
      const BufferId buffer = plan_.view(id).buffer;
      if (made_by_[at(buffer)] >= 0) continue;
      made_by_[at(buffer)] = i;
      is_stack_[at(buffer)] = loops_ > 0;
      if (loops_ == 0 && instruction.phase == graph::Phase::backward) see_cast(instruction, buffer);
      if (!is_state(buffer) && keeps_parameter(instruction) && !instruction.operands.empty()) {
        parameter_[at(buffer)] = parameter_[at(plan_.view(instruction.operands[0]).buffer)];
      }
    }
  }

  void see_cast(const Instruction& instruction, BufferId result) {
    if (plan::only_moves(instruction) || !keeps_parameter(instruction) || instruction.operands.empty()) return;
    const BufferId from = plan_.view(instruction.operands[0]).buffer;
    if (is_stack_[at(from)] && from != result) cast_to_[at(from)] = result;
  }

  static bool keeps_parameter(const Instruction& instruction) {
    return plan::only_moves(instruction) || graph::facts_of(instruction.op).keeps_parameter;
  }

  const Plan& plan_;
  std::vector<Lifetime> lives_;
  std::vector<InstructionId> made_by_;  // by buffer: the instruction that writes to it first
  std::vector<bool> parameter_;         // by buffer: whether it is a parameter, or one in another dtype or layout
  std::vector<bool> is_stack_;          // by buffer: whether a loop writes to it first
  std::vector<BufferId> cast_to_;       // by buffer: what a stack is cast to, outside of loops; -1 if it is not
  std::set<std::string> moments_, caches_;
  int loops_ = 0;                    // around the instruction that is seen
  InstructionId backward_, update_;  // where these passes begin; gradients summed over microbatches are set to zero before that
};

// The instruction at which the live buffers other than state take the most bytes, and those bytes.
struct Peak {
  InstructionId at = 0;
  std::int64_t bytes = 0;
};

Peak find_peak(const Plan& plan, const std::vector<Lifetime>& lives) {
  std::vector<std::int64_t> change(plan.instructions.size() + 2);
  for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
    if (plan.buffers[b].lasts == Lasts::from_run_to_run) continue;
    change[at(lives[b].first)] += aligned(plan.buffers[b].bytes);
    change[at(lives[b].last) + 1] -= aligned(plan.buffers[b].bytes);
  }
  Peak peak;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < change.size(); ++i) {
    bytes += change[i];
    if (bytes > peak.bytes) peak = {static_cast<InstructionId>(i), bytes};
  }
  return peak;
}

std::int64_t bytes_that_last(const Plan& plan, Lasts lasts) {
  std::int64_t bytes = 0;
  for (const plan::Buffer& buffer : plan.buffers) bytes += buffer.lasts == lasts ? buffer.bytes : 0;
  return bytes;
}

}  // namespace

std::string_view name_of(Component component) {
  switch (component) {
    case Component::parameters: return "parameters";
    case Component::optimizer_state: return "optimizer state";
    case Component::kv_cache: return "KV cache";
    case Component::other_state: return "other state";
    case Component::batch: return "batch";
    case Component::weights_in_use: return "weights in use";
    case Component::saved_activations: return "saved activations";
    case Component::gradients: return "gradients";
    case Component::working_values: return "working values";
    case Component::results: return "results";
    case Component::tile_padding: return "tile padding";
    case Component::gaps: return "gaps";
  }
  return "";
}

Memory memory_of(const Resident& resident, const plan::Arena& arena, const sharding::Layout& layout) {
  const Plan& plan = resident.plan;
  const Uses uses(plan, layout);
  const Peak peak = find_peak(plan, uses.lives());
  Memory memory;
  memory.alias = plan::state_bytes(plan);
  memory.argument = memory.alias + bytes_that_last(plan, Lasts::as_input);
  memory.output = bytes_that_last(plan, Lasts::as_output);
  memory.peak = memory.alias + arena.bytes;
  memory.temp = std::max<std::int64_t>(0, memory.peak - memory.argument - memory.output);
  memory.at = peak.at;
  for (BufferId b = 0; b < static_cast<BufferId>(plan.buffers.size()); ++b) {
    if (!uses.is_state(b) && (uses.life(b).first > peak.at || uses.life(b).last < peak.at)) continue;
    const Component component = uses.component(b);
    const std::int64_t bytes = uses.bytes(b);
    memory.components[static_cast<std::size_t>(component)] += bytes - resident.padding[at(b)];
    memory.components[static_cast<std::size_t>(Component::tile_padding)] += resident.padding[at(b)];
    if (uses.is_state(b)) continue;
    memory.held.push_back({component, uses.name(b), bytes, uses.first_view(b), uses.life(b).first, uses.life(b).last});
  }
  memory.components[static_cast<std::size_t>(Component::gaps)] = arena.bytes - peak.bytes;
  std::stable_sort(memory.held.begin(), memory.held.end(),
                   [](const Held& a, const Held& b) { return a.bytes > b.bytes; });
  return memory;
}

std::int64_t total(const Components& components) { return std::accumulate(components.begin(), components.end(), std::int64_t{0}); }

std::vector<Components> memory_course(const Resident& resident, const sharding::Layout& layout) {
  const Plan& plan = resident.plan;
  const Uses uses(plan, layout);
  std::vector<Components> course(plan.instructions.size());
  if (course.empty()) return course;
  for (BufferId b = 0; b < static_cast<BufferId>(plan.buffers.size()); ++b) {
    const std::size_t first = uses.is_state(b) ? 0 : at(uses.life(b).first);
    const std::size_t end = uses.is_state(b) ? course.size() : std::min(course.size(), at(uses.life(b).last) + 1);
    const std::int64_t padding = resident.padding[at(b)];
    const auto add = [&](Component component, std::int64_t bytes) {
      const auto c = static_cast<std::size_t>(component);
      course[first][c] += bytes;
      if (end < course.size()) course[end][c] -= bytes;
    };
    add(uses.component(b), uses.bytes(b) - padding);
    add(Component::tile_padding, padding);
  }
  for (std::size_t i = 1; i < course.size(); ++i) {
    for (std::size_t c = 0; c < kComponents; ++c) course[i][c] += course[i - 1][c];
  }
  return course;
}

}  // namespace moesh::forecast
