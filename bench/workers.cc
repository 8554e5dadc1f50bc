// Measures what it costs to divide a kernel among threads: how much longer than its own work a call with one block for each thread takes,
// compared with an OpenMP region.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include "backend/workers.h"
#include "base/clock.h"
#include "errors.h"
#include "median.h"
#include "words.h"

namespace moesh::bench {
namespace {

constexpr const char* kHelp = R"(bench_workers [--threads=N] [--rounds=N]

Each of N threads is busy for some microseconds per call. Shown is the median time of a call by this engine's threads and by OpenMP's, which
take turns. OpenMP's spin for a while after their work, unless GOMP_SPINCOUNT says otherwise, so there is a pause before each turn.

  --threads=N    default: one for each core that this process may keep busy
  --rounds=N     default 30
)";

void be_busy(double seconds) {
  const auto start = Clock::now();
  while (seconds_since(start) < seconds) {}
}

// Seconds of a call, after the threads have been woken.
template <typename Call>
double seconds_of(const Call& call) {
  constexpr int kToWake = 50, kCalls = 200;
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  for (int i = 0; i < kToWake; ++i) call();
  const auto start = Clock::now();
  for (int i = 0; i < kCalls; ++i) call();
  return seconds_since(start) / kCalls;
}

int run(int argc, char** argv) {
  int threads = 0;
  std::int64_t rounds = 30;
  for_words(argc, argv, kHelp, [&](std::string_view name, const std::string& value) {
    if (name == "--threads") threads = static_cast<int>(count_in(name, value, 4096));
    else if (name == "--rounds") rounds = count_in(name, value);
    else return false;
    return true;
  });
  backend::Workers workers(threads);
  threads = workers.threads();
  fmt::print("{} threads; microseconds of a call\nbusy for  here  OpenMP\n", threads);
  for (const double busy : {1.0, 2.0, 5.0, 20.0, 100.0}) {
    std::vector<double> ours, others;
    for (std::int64_t round = 0; round < rounds; ++round) {
      ours.push_back(seconds_of([&] { workers.parallel(threads, 1, [&](std::int64_t, std::int64_t) { be_busy(1e-6 * busy); }); }));
#if defined(_OPENMP)
      others.push_back(seconds_of([&] {
#pragma omp parallel num_threads(threads)
        be_busy(1e-6 * busy);
      }));
#endif
    }
    fmt::print("{:>8.0f} {:>5.1f}  {}\n", busy, 1e6 * median(ours), others.empty() ? "-" : fmt::format("{:>6.1f}", 1e6 * median(others)));
  }
  return 0;
}

}  // namespace
}  // namespace moesh::bench

int main(int argc, char** argv) {
  return moesh::bench::with_errors_told([&] { return moesh::bench::run(argc, argv); });
}
