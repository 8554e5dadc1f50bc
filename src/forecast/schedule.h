// The schedule of a step: kernels run one after the other, collectives beside them, one after the other on each kind of link.
#pragma once

#include <vector>

#include "forecast/timing.h"
#include "plan/arena.h"

namespace moesh::forecast {

// A run that is repeated every `period` seconds; the times of its span are those of the last one.
struct Recurrence {
  std::int64_t runs = 1;
  double period = 0;
};

// A run of an instruction, which also stands for its runs in loop iterations that are not simulated.
struct Span {
  plan::InstructionId instruction = -1;
  double start = 0, finish = 0;
  std::int32_t after = -1;                 // the span whose end it waits for
  std::vector<Recurrence> recurrences = {};  // the innermost loop first
};

// The last simulated iteration of a loop.
struct Iteration {
  plan::InstructionId loop = -1;
  std::size_t first = 0, end = 0;  // the range of its spans
  std::int64_t count = 1;          // iterations of the loop
  double period = 0;               // seconds from one iteration to the next
};

struct Schedule {
  double seconds = 0;           // per step
  double kernels = 0;           // the time in which kernels run
  std::vector<double> exposed;  // by instruction: the time in which a kernel, or the step's end, waits for it
  std::vector<double>
      critical;  // by instruction: its time on the critical path
  std::vector<Span> spans;            // in the plan's order
  std::vector<Iteration> iterations;  // one per loop, each time that the loop is simulated; inner loops first
};

// Calls `see` with the start and finish of each run that the span stands for, the last run first.
template <typename See>
void for_each_run(const Span& span, See see, std::size_t loop = 0, double earlier = 0) {
  if (loop == span.recurrences.size()) return see(span.start - earlier, span.finish - earlier);
  for (std::int64_t n = 0; n < span.recurrences[loop].runs; ++n)
    for_each_run(span, see, loop + 1, earlier + static_cast<double>(n) * span.recurrences[loop].period);
}

// An instruction starts when all earlier instructions are done that use the same memory, where one of the two writes. So a collective
// starts as soon as its place in memory is free, and no earlier. Three iterations of a loop are simulated; the others take as long as the
// third.
Schedule schedule_of(const plan::Plan& plan, const plan::Arena& arena, const std::vector<Timing>& timings);

}  // namespace moesh::forecast
