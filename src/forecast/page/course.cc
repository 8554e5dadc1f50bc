#include "forecast/page/course.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "base/place.h"
#include "forecast/timed_step.h"

namespace moesh::forecast {
namespace {

using plan::Instruction;
using plan::InstructionId;

constexpr std::size_t kKernelsOfAPart = 120;
constexpr std::int64_t kManyIterations = 5;

// Calls `see` with each bin that a run overlaps, and with the seconds of the overlap.
template <typename See>
void for_each_bin(const Bins& bins, double start, double finish, See see) {
  const double width = bins.width();
  const auto bin_at = [&](double time) {
    return std::min(bins.count - 1, static_cast<std::size_t>(std::max(0.0, std::floor(time / width))));
  };
  for (std::size_t bin = bin_at(start); bin <= bin_at(finish); ++bin) {
    const double from = static_cast<double>(bin) * width;
    see(bin, std::max(0.0, std::min(finish, from + width) - std::max(start, from)));
  }
}

bool is_border(const Instruction& instruction) {
  return instruction.kind == Instruction::Kind::loop || instruction.kind == Instruction::Kind::end;
}

// The start of the first kernel of the phase that starts at `from` or later; the step's end if there is none.
double start_of(const Course& course, graph::Phase phase, double from) {
  double start = course.schedule.seconds;
  for (const Span& span : course.schedule.spans) {
    if (course.sent_by(span.instruction) != nullptr || course.instruction(span.instruction).phase != phase) continue;
    for_each_run(span, [&](double begin, double) {
      if (begin >= from) start = std::min(start, begin);
    });
  }
  return start;
}

bool holds_phase(const Course& course, InstructionId loop, graph::Phase phase) {
  for (InstructionId i = loop + 1; i < course.instruction(loop).other; ++i) {
    if (!is_border(course.instruction(i)) && course.instruction(i).phase == phase) return true;
  }
  return false;
}

double seconds_of(const Iteration& one) { return one.period * static_cast<double>(one.count); }

// Whether a loop belongs to a phase. Rematerialisation for the backward pass is a part of that pass. A loop over microbatches contains
// both passes and belongs to neither.
bool is_of_phase(const Course& course, const Iteration& one, graph::Phase phase) {
  const bool has_backward = holds_phase(course, one.loop, graph::Phase::backward);
  if (phase == graph::Phase::forward) return !has_backward && holds_phase(course, one.loop, phase);
  const auto takes_most = [&](const Iteration& inner) {
    return inner.loop > one.loop && inner.loop < course.instruction(one.loop).other &&
           seconds_of(inner) > one.period / 2 && holds_phase(course, inner.loop, graph::Phase::backward);
  };
  const std::vector<Iteration>& all = course.schedule.iterations;
  return has_backward && std::none_of(all.begin(), all.end(), takes_most);
}

// For layers that are not in a loop: some of the kernels in the middle of the phase.
std::optional<LayerWindow> middle_of(const Course& course, graph::Phase phase) {
  std::vector<const Span*> kernels;
  for (const Span& span : course.schedule.spans) {
    const bool is_kernel = course.sent_by(span.instruction) == nullptr && span.finish > span.start;
    if (is_kernel && course.instruction(span.instruction).phase == phase) kernels.push_back(&span);
  }
  if (kernels.empty()) return std::nullopt;
  const std::size_t shown = std::min(kKernelsOfAPart, kernels.size()), first = (kernels.size() - shown) / 2;
  return LayerWindow{-1, 1, kernels[first]->start, kernels[first + shown - 1]->finish};
}

// Calls `see` for each loop of many iterations, with the first bin that lies wholly in the loop and the bin after the last such one.
template <typename See>
void for_each_long_loop(const Course& course, const Bins& bins, See see) {
  for (const Stretch& loop : loops_of(course)) {
    const auto first = static_cast<std::size_t>(std::ceil(loop.begin / bins.width()));
    const auto end = std::min(bins.count, static_cast<std::size_t>(std::floor(loop.end / bins.width())));
    if (loop.iterations >= kManyIterations && first < end) see(first, end);
  }
}

}  // namespace

Course course_of(const ShownPlan& shown) {
  const PlacedPlan on_devices = placed(shown.plan, shown.target, shown.forecast.host.offloaded);
  std::vector<const Sent*> sent(shown.plan.instructions.size());
  for (const Sent& one : shown.forecast.collectives) sent[at(one.instruction)] = &one;
  TimedStep step = timed(on_devices, RoutedRows(shown.plan, Router::drawn));
  return {shown, std::move(step.timings), std::move(step.schedule), memory_course(on_devices.resident, shown.layout), std::move(sent)};
}

Shares shares_of(const Course& course, const Bins& bins, std::size_t shades,
                 const std::function<std::optional<std::size_t>(InstructionId)>& shade) {
  Shares shares(shades, std::vector<double>(bins.count));
  for (const Span& span : course.schedule.spans) {
    const std::optional<std::size_t> own = shade(span.instruction);
    if (!own || span.finish <= span.start) continue;
    for_each_run(span, [&](double start, double finish) {
      for_each_bin(bins, start, finish,
                   [&](std::size_t bin, double seconds) { shares[*own][bin] += seconds / bins.width(); });
    });
  }
  for_each_long_loop(course, bins, [&](std::size_t first, std::size_t end) {
    for (std::vector<double>& of_shade : shares) {
      double sum = 0;
      for (std::size_t bin = first; bin < end; ++bin) sum += of_shade[bin];
      for (std::size_t bin = first; bin < end; ++bin) of_shade[bin] = sum / static_cast<double>(end - first);
    }
  });
  return shares;
}

std::vector<InstructionId> fullest_of(const Course& course, const Bins& bins) {
  std::vector<InstructionId> fullest(bins.count, -1);
  for (const Span& span : course.schedule.spans) {
    const InstructionId own = fullest_near(course, span.instruction);
    const std::int64_t bytes = course.held_at(own);
    for_each_run(span, [&](double start, double finish) {
      for_each_bin(bins, start, finish, [&](std::size_t bin, double) {
        if (fullest[bin] < 0 || bytes > course.held_at(fullest[bin])) fullest[bin] = own;
      });
    });
  }
  for (std::size_t bin = 1; bin < fullest.size(); ++bin) {
    const bool is_over = static_cast<double>(bin) * bins.width() >= course.schedule.seconds;
    if (fullest[bin] < 0 && !is_over) fullest[bin] = fullest[bin - 1];
  }
  for_each_long_loop(course, bins, [&](std::size_t first, std::size_t end) {
    InstructionId best = fullest[first];
    for (std::size_t bin = first; bin < end; ++bin) {
      if (course.held_at(fullest[bin]) > course.held_at(best)) best = fullest[bin];
    }
    for (std::size_t bin = first; bin < end; ++bin) fullest[bin] = best;
  });
  return fullest;
}

std::vector<Stretch> phases_of(const Course& course) {
  const double backward = start_of(course, graph::Phase::backward, 0),
               update = start_of(course, graph::Phase::update, backward);
  std::vector<Stretch> phases{
      {"forward", 0, backward}, {"backward", backward, update}, {"update", update, course.schedule.seconds}};
  std::erase_if(phases, [](const Stretch& phase) { return phase.end <= phase.begin; });
  return phases;
}

std::vector<Stretch> loops_of(const Course& course) {
  std::vector<Stretch> loops;
  for (InstructionId i = 0; at(i) < course.shown.plan.instructions.size(); ++i) {
    const Instruction& loop = course.instruction(i);
    if (loop.kind != Instruction::Kind::loop) continue;
    Stretch stretch{fmt::format("{} \u00d7 {}", loop.path, loop.count), course.schedule.seconds, 0, loop.count};
    for (const Span& span : course.schedule.spans) {
      if (span.instruction <= i || span.instruction >= loop.other || course.sent_by(span.instruction) != nullptr)
        continue;
      stretch.begin = std::min(stretch.begin, span.start);
      stretch.end = std::max(stretch.end, span.finish);
    }
    if (stretch.end > stretch.begin) loops.push_back(std::move(stretch));
    i = loop.other;
  }
  return loops;
}

std::optional<LayerWindow> layer_window(const Course& course, graph::Phase phase) {
  const Iteration* best = nullptr;
  for (const Iteration& one : course.schedule.iterations) {
    if (is_of_phase(course, one, phase) && (best == nullptr || seconds_of(one) >= seconds_of(*best))) best = &one;
  }
  if (best == nullptr || best->period <= 0) return middle_of(course, phase);
  double begin = course.schedule.seconds;
  std::size_t recurring = 0;
  for (std::size_t i = best->first; i < best->end; ++i) {
    const Span& span = course.schedule.spans[i];
    if (course.sent_by(span.instruction) == nullptr) begin = std::min(begin, span.start);
    recurring = std::max(recurring, span.recurrences.size());
  }
  if (recurring > 0) begin -= best->period;  // one iteration earlier, so that another one follows
  return LayerWindow{best->loop, best->count, begin, begin + best->period};
}

std::vector<Run> runs_between(const Course& course, double begin, double end) {
  std::vector<Run> runs;
  for (const Span& span : course.schedule.spans) {
    const InstructionId after =
        span.after < 0 ? -1 : course.schedule.spans[static_cast<std::size_t>(span.after)].instruction;
    for_each_run(span, [&](double start, double finish) {
      if (finish > begin && start < end && finish > start) runs.push_back({span.instruction, start, finish, after});
    });
  }
  std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.start < b.start; });
  return runs;
}

InstructionId fullest_near(const Course& course, InstructionId id) {
  InstructionId best = id;
  const auto see = [&](InstructionId other) {
    if (course.held_at(other) > course.held_at(best)) best = other;
  };
  const auto end = static_cast<InstructionId>(course.memory.size());
  for (InstructionId i = id; i-- > 0 && is_border(course.instruction(i));) see(i);
  for (InstructionId i = id + 1; i < end && is_border(course.instruction(i)); ++i) see(i);
  return best;
}

}  // namespace moesh::forecast
