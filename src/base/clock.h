// Elapsed time, whatever happens to the wall clock.
#pragma once

#include <chrono>

namespace moesh {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace moesh
