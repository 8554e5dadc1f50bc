#include "forecast/schedule.h"
#include "base/place.h"

#include <algorithm>
#include <map>

namespace moesh::forecast {
namespace {

using plan::Instruction;
using plan::InstructionId;
using plan::Plan;

using SpanId = std::int32_t;
constexpr SpanId kNobody = -1;
constexpr std::int64_t kFollowed = 3;  // iterations of a loop that are simulated

// The span that last wrote a stretch of memory, and the one that was the last to read its content.
struct Use {
  SpanId writer = kNobody, reader = kNobody;
};

struct Range {
  std::int64_t begin, end;
};

// Stretches of memory with the same last uses, by where they begin.
class LastUses {
 public:
  template <typename See>
  void for_each(Range range, See see) {
    if (range.begin >= range.end) return;
    cut(range.begin);
    cut(range.end);
    for (auto stretch = uses_.find(range.begin); stretch->first != range.end; ++stretch) see(stretch->second);
  }
  // Makes the range one stretch.
  void write(Range range, SpanId writer) {
    if (range.begin >= range.end) return;
    cut(range.begin);
    cut(range.end);
    uses_.erase(uses_.upper_bound(range.begin), uses_.lower_bound(range.end));
    uses_[range.begin] = {writer, kNobody};
  }

 private:
  void cut(std::int64_t begin) {
    auto next = uses_.upper_bound(begin);
    const bool is_cut = next != uses_.begin() && std::prev(next)->first == begin;
    if (!is_cut) uses_.emplace_hint(next, begin, next == uses_.begin() ? Use{} : std::prev(next)->second);
  }

  std::map<std::int64_t, Use> uses_;
};

class Timeline {
 public:
  Timeline(const Plan& plan, const plan::Arena& arena, const std::vector<Timing>& timings)
      : plan_(plan), timings_(timings), iterations_(plan.instructions.size()) {
    made_.exposed.resize(plan.instructions.size());
    made_.critical.resize(plan.instructions.size());
    place_buffers(arena);
  }

  Schedule run() {
    run(0, static_cast<InstructionId>(plan_.instructions.size()), 1);
    SpanId last = kernels_.last;
    for (const auto& [link, queue] : links_) {
      if (finish(queue.last) > finish(last)) last = queue.last;
    }
    made_.seconds = finish(last);
    if (last != kernels_.last) expose(last, finish(kernels_.last), 1);
    find_critical(last);
    return std::move(made_);
  }

 private:
  struct Queue {
    SpanId last = kNobody;
  };

  // The spans that the last one waited for, one after the other, fill the step. Those of a loop's last simulated iteration also stand for
  // the iterations that are not simulated, which take a period each, though the path may spend more or less than that in this one.
  void find_critical(SpanId last) {
    std::vector<double> weights(made_.spans.size());
    const auto seconds = [&](std::size_t span) { return weights[span] * (made_.spans[span].finish - made_.spans[span].start); };
    for (SpanId span = last; span != kNobody; span = made_.spans[at(span)].after) weights[at(span)] = 1;
    for (const Iteration& of : made_.iterations) {
      double once = 0;
      for (std::size_t span = of.first; span < of.end; ++span) once += seconds(span);
      if (once == 0) continue;
      const double others = static_cast<double>(std::max<std::int64_t>(0, of.count - kFollowed)) * of.period;
      for (std::size_t span = of.first; span < of.end; ++span) weights[span] *= (once + others) / once;
    }
    for (std::size_t span = 0; span < made_.spans.size(); ++span) made_.critical[at(made_.spans[span].instruction)] += seconds(span);
  }

  double finish(SpanId span) const { return span == kNobody ? 0 : made_.spans[at(span)].finish; }

  // Buffers have their offsets in the arena; state is placed after it.
  void place_buffers(const plan::Arena& arena) {
    begins_ = arena.offsets;
    std::int64_t end = arena.bytes;
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
      if (plan_.buffers[b].lasts != plan::Lasts::from_run_to_run) continue;
      begins_[b] = end;
      end += plan_.buffers[b].bytes;
    }
  }

  Range range_of(const plan::View& view) const {
    const std::int64_t begin = begins_[at(view.buffer)];
    if (!view.is_dense()) return {begin, begin + plan_.buffer(view.buffer).bytes};
    const std::int64_t bytes = sharding::shard_bytes(view.shape, view.dtype, view.spec, plan_.mesh);
    std::int64_t steps = 0;
    for (const plan::Advance& advance : view.advances) steps += advance.by * iterations_[at(advance.loop)];
    return {begin + steps * bytes, begin + (steps + 1) * bytes};
  }

  void run(InstructionId from, InstructionId end, double runs) {
    for (InstructionId i = from; i < end; ++i) {
      const Instruction& instruction = plan_.instructions[at(i)];
      if (instruction.kind == Instruction::Kind::loop) {
        run_loop(i, instruction, runs);
        i = instruction.other;
      } else {
        issue(i, instruction, runs);
      }
    }
  }

  void run_loop(InstructionId loop, const Instruction& instruction, double runs) {
    std::size_t first = made_.spans.size();
    double before = 0;
    for (std::int64_t n = 0; n < std::min(kFollowed, instruction.count); ++n) {
      iterations_[at(loop)] = instruction.reverse ? instruction.count - 1 - n : n;
      first = made_.spans.size();
      before = latest();
      const bool stands_for_more = n == kFollowed - 1;
      run(loop + 1, instruction.other, stands_for_more ? runs * static_cast<double>(instruction.count - n) : runs);
    }
    const std::int64_t more = std::max<std::int64_t>(0, instruction.count - kFollowed);
    const double period = latest() - before, rest = static_cast<double>(more) * period;
    made_.iterations.push_back({loop, first, made_.spans.size(), instruction.count, period});
    if (more == 0) return;
    for (std::size_t span = first; span < made_.spans.size(); ++span) {
      made_.spans[span].start += rest;
      made_.spans[span].finish += rest;
      made_.spans[span].recurrences.push_back({more + 1, period});
    }
  }

  double latest() const {
    double time = finish(kernels_.last);
    for (const auto& [link, queue] : links_) time = std::max(time, finish(queue.last));
    return time;
  }

  void issue(InstructionId i, const Instruction& instruction, double runs) {
    const Timing& timing = timings_[at(i)];
    Span span{i};
    const auto wait_for = [&](SpanId other) {
      if (other != kNobody && (span.after == kNobody || finish(other) > finish(span.after))) span.after = other;
    };
    if (timing.sent) {
      for (const std::size_t link : timing.links) wait_for(links_[link].last);
    }
    if (!timing.sent || timing.is_alone) wait_for(kernels_.last);
    for (const plan::ViewId id : instruction.operands)
      uses_.for_each(range_of(plan_.view(id)), [&](Use& use) { wait_for(use.writer); });
    for (const plan::ViewId id : instruction.results) {
      uses_.for_each(range_of(plan_.view(id)), [&](Use& use) {
        wait_for(use.writer);
        wait_for(use.reader);
      });
    }
    span.start = finish(span.after);
    span.finish = span.start + timing.seconds;
    if (!timing.sent) {
      made_.kernels += runs * timing.seconds;
      if (span.start > finish(kernels_.last)) expose(span.after, finish(kernels_.last), runs);
    }
    if (timing.sent && timing.is_alone) made_.exposed[at(i)] += runs * timing.seconds;
    add(span, instruction);
  }

  void add(const Span& span, const Instruction& instruction) {
    const Timing& timing = timings_[at(span.instruction)];
    const auto id = static_cast<SpanId>(made_.spans.size());
    made_.spans.push_back(span);
    if (timing.sent) {
      for (const std::size_t link : timing.links) links_[link].last = id;
    }
    if (!timing.sent || timing.is_alone) kernels_.last = id;
    for (const plan::ViewId view : instruction.operands) {
      uses_.for_each(range_of(plan_.view(view)), [&](Use& use) {
        if (use.reader == kNobody || finish(id) > finish(use.reader)) use.reader = id;
      });
    }
    for (const plan::ViewId view : instruction.results) uses_.write(range_of(plan_.view(view)), id);
  }

  // No kernel runs from `idle_from` until the span is done, so the time of each span of its chain in that stretch is exposed.
  void expose(SpanId span, double idle_from, double runs) {
    for (; span != kNobody && finish(span) > idle_from; span = made_.spans[at(span)].after) {
      const double seconds = finish(span) - std::max(idle_from, made_.spans[at(span)].start);
      made_.exposed[at(made_.spans[at(span)].instruction)] += runs * seconds;
    }
  }

  const Plan& plan_;
  const std::vector<Timing>& timings_;
  std::vector<std::int64_t> begins_;      // by buffer
  std::vector<std::int64_t> iterations_;  // by loop: the index of the iteration that runs
  Queue kernels_;
  std::map<std::size_t, Queue> links_;
  LastUses uses_;
  Schedule made_;
};

}  // namespace

Schedule schedule_of(const Plan& plan, const plan::Arena& arena, const std::vector<Timing>& timings) {
  return Timeline(plan, arena, timings).run();
}

}  // namespace moesh::forecast
