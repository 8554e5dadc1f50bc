#include "plan/arena.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace moesh::plan {
namespace {

class Lives {
 public:
  explicit Lives(const Plan& plan) : plan_(plan), lives_(plan.buffers.size()), is_seen_(plan.buffers.size()) {}

  std::vector<Lifetime> run() {
    const auto end = static_cast<InstructionId>(plan_.instructions.size());
    for (InstructionId i = 0; i < end; ++i) {
      const Instruction& instruction = plan_.instructions[static_cast<std::size_t>(i)];
      if (instruction.kind == Instruction::Kind::loop) loops_.push_back({i, instruction.other});
      if (instruction.kind == Instruction::Kind::end) loops_.pop_back();
      for (const ViewId view : instruction.operands) hold_what_made(view, i);
      for (const auto* views : {&instruction.operands, &instruction.results}) {
        for (const ViewId view : *views) see(view, i);
      }
      if (runs_beside_products(instruction)) {
        for (const ViewId view : instruction.results) made_by_[plan_.view(view).buffer] = {i};
      } else if (instruction.kind == Instruction::Kind::collective) {
        for (auto& [buffer, sent] : made_by_) {
          const auto holds_up = [&](InstructionId other) {
            return share_wire(plan_.instructions[static_cast<std::size_t>(other)], instruction);
          };
          if (std::any_of(sent.begin(), sent.end(), holds_up)) sent.push_back(i);
        }
      }
    }
    for (std::size_t b = 0; b < lives_.size(); ++b) {
      const Lasts lasts = plan_.buffers[b].lasts;
      if (lasts == Lasts::as_input || lasts == Lasts::from_run_to_run) lives_[b].first = 0;
      if (lasts == Lasts::as_output || lasts == Lasts::from_run_to_run) lives_[b].last = end;
      if (lives_[b].last < lives_[b].first) lives_[b].last = lives_[b].first;
    }
    return std::move(lives_);
  }

 private:
  // Instruction `at` waits for the collective that makes the view, which reads its operands until then, as do those behind it on the wire.
  void hold_what_made(ViewId view, InstructionId at) {
    const auto found = made_by_.find(plan_.view(view).buffer);
    if (found == made_by_.end()) return;
    for (const InstructionId sent : found->second) {
      for (const ViewId read : plan_.instructions[static_cast<std::size_t>(sent)].operands) {
        InstructionId& last = lives_[static_cast<std::size_t>(plan_.view(read).buffer)].last;
        last = std::max(last, at - 1);
      }
    }
    made_by_.erase(found);
  }

  void see(ViewId id, InstructionId at) {
    const View& view = plan_.view(id);
    const auto b = static_cast<std::size_t>(view.buffer);
    Lifetime& life = lives_[b];
    if (!is_seen_[b]) {
      is_seen_[b] = true;
      life.first = plan_.buffers[b].lasts == Lasts::as_input ? 0 : at;
    }
    life.last = std::max(life.last, at);
    for (const Lifetime& loop : loops_) {
      const bool advances = std::any_of(view.advances.begin(), view.advances.end(), [&](const Advance& a) { return a.loop == loop.first; });
      if (advances) life.first = std::min(life.first, loop.first);
      // A buffer that is live before the loop, or that its iterations fill slice by slice, is live until the loop ends.
      if (life.first <= loop.first) {
        life.last = std::max(life.last, loop.last);
        break;
      }
    }
    if (view.rows >= 0) see(view.rows, at);
  }

  const Plan& plan_;
  std::vector<Lifetime> lives_;
  std::vector<bool> is_seen_;
  std::vector<Lifetime> loops_;  // the open loops, the outermost first
  // By buffer: the collective beside products whose result nothing has read yet, and the collectives that wait for its wire.
  std::map<BufferId, std::vector<InstructionId>> made_by_;
};

struct Placement {
  std::int64_t begin, end;  // in bytes
  Lifetime life;
};

}  // namespace

std::vector<Lifetime> lifetimes_of(const Plan& plan) { return Lives(plan).run(); }

// Places the largest buffers first, each at the lowest offset that is free during its whole lifetime.
Arena pack(const Plan& plan, const std::function<std::int64_t(const Buffer&)>& size) {
  const std::vector<Lifetime> lives = lifetimes_of(plan);
  std::vector<std::int64_t> sizes;
  for (const Buffer& buffer : plan.buffers) {
    const std::int64_t bytes = buffer.lasts == Lasts::from_run_to_run ? 0 : size(buffer);
    sizes.push_back(aligned(bytes));
  }
  std::vector<std::size_t> order(plan.buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
  Arena arena{std::vector<std::int64_t>(plan.buffers.size(), 0), 0};
  std::vector<Placement> placed;  // by where they begin
  for (const std::size_t b : order) {
    if (sizes[b] == 0) continue;
    const Lifetime life = lives[b];
    std::int64_t at = 0;
    for (const Placement& other : placed) {
      if (other.life.first > life.last || life.first > other.life.last) continue;
      if (other.begin - at >= sizes[b]) break;
      at = std::max(at, other.end);
    }
    arena.offsets[b] = at;
    arena.bytes = std::max(arena.bytes, at + sizes[b]);
    const auto behind = std::upper_bound(placed.begin(), placed.end(), at, [](std::int64_t x, const Placement& y) { return x < y.begin; });
    placed.insert(behind, {at, at + sizes[b], life});
  }
  return arena;
}

Arena device_arena(const Plan& plan) {
  return pack(plan, [](const Buffer& buffer) { return buffer.bytes; });
}

std::int64_t state_bytes(const Plan& plan) {
  std::int64_t sum = 0;
  for (const Buffer& buffer : plan.buffers) sum += buffer.lasts == Lasts::from_run_to_run ? buffer.bytes : 0;
  return sum;
}

}  // namespace moesh::plan
