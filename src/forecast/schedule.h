// When instructions run: kernels one after the other, collectives beside them, one after the other on each kind of
// link.
#pragma once

#include <vector>

#include "forecast/timing.h"
#include "plan/arena.h"

namespace moesh::forecast {

// So many runs, one each `period`, the last of them as it is written.
struct Recurrence {
  std::int64_t runs = 1;
  double period = 0;
};

// A run of an instruction, and of those like it in iterations that are not followed.
struct Span {
  plan::InstructionId instruction = -1;
  double start = 0, finish = 0;
  std::int32_t after = -1;                 // the span whose end it waits for
  std::vector<Recurrence> recurrences = {};  // of the innermost loop first
};

// The last iteration of a loop that is followed.
struct Iteration {
  plan::InstructionId loop = -1;
  std::size_t first = 0, end = 0;  // its spans
  std::int64_t count = 1;          // of the loop's iterations
  double period = 0;               // from one to the next
};

struct Schedule {
  double seconds = 0;           // of a step
  double kernels = 0;           // in which kernels run
  std::vector<double> exposed;  // by instruction: in which a kernel, or the step's end, waits for it
  std::vector<double>
      critical;  // by instruction: that it takes on the longest chain of those that wait for one another
  std::vector<Span> spans;            // in the plan's order
  std::vector<Iteration> iterations;  // of each loop as often as it is followed, inner ones first
};

// Calls `see` with start and finish of each run that the span stands for, the last first.
template <typename See>
void for_each_run(const Span& span, See see, std::size_t loop = 0, double earlier = 0) {
  if (loop == span.recurrences.size()) return see(span.start - earlier, span.finish - earlier);
  for (std::int64_t n = 0; n < span.recurrences[loop].runs; ++n)
    for_each_run(span, see, loop + 1, earlier + static_cast<double>(n) * span.recurrences[loop].period);
}

// An instruction starts when those are done that use the same memory, one of the two writing: so a collective starts as
// early as its place in memory is free, and no earlier. Of a loop three iterations are followed; the others take as
// long as the third.
Schedule schedule_of(const plan::Plan& plan, const plan::Arena& arena, const std::vector<Timing>& timings);

}  // namespace moesh::forecast
