// When instructions run: kernels one after the other, collectives beside them, one after the other on each kind of
// link.
#pragma once

#include <vector>

#include "forecast/timing.h"
#include "plan/arena.h"

namespace moesh::forecast {

struct Schedule {
  double seconds = 0;           // of a step
  double kernels = 0;           // in which kernels run
  std::vector<double> exposed;  // by instruction: in which a kernel, or the step's end, waits for it
  std::vector<double>
      critical;  // by instruction: that it takes on the longest chain of those that wait for one another
};

// An instruction starts when those are done that use the same memory, one of the two writing: so a collective starts as
// early as its place in memory is free, and no earlier. Of a loop three iterations are followed; the others take as
// long as the third.
Schedule schedule_of(const plan::Plan& plan, const plan::Arena& arena, const std::vector<Timing>& timings);

}  // namespace moesh::forecast
