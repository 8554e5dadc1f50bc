// Compares the speed of moesh's matrix products with oneDNN's and OpenBLAS's, on the shapes of training a small mixture-of-experts
// model.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/core.h>
#include <time.h>
#include <unistd.h>

#include "backend/cpu/isa.h"
#include "errors.h"
#include "gemm_cases.h"
#include "median.h"
#include "words.h"

namespace moesh::bench {
namespace {

constexpr const char* kHelp = R"(bench_gemm [--rounds=N] [--threads=1|N] [--only=TEXT] [--type=TEXT] [--json]

Times 40 products of matrices, and products of 8 to 64 experts with even and with uneven rows, by this engine's kernels and by the
libraries it was built with: experts one by one, and as a batch in which each has as many rows as the largest. Contestants take turns,
round by round, so that a machine's drift meets all; figures are medians over the rounds, ratios medians of the rounds' ratios
(above 1: ours is faster). One thread is timed by its own processor time, several by the clock.

  --rounds=N     rounds of each product (default 15)
  --threads=N    only with so many threads (default: 1, then one a core)
  --only=TEXT    only products whose line has this text
  --type=TEXT    only float32, or only bfloat16
  --json         one line of JSON for each product
MOESH_ISA chooses our instructions (portable, avx2, avx512, avx512_bf16 or amx_bf16), OPENBLAS_CORETYPE those of an OpenBLAS that
does not know the processor. Threads of the libraries wait for more work for about a millisecond, unless GOMP_SPINCOUNT and
OPENBLAS_THREAD_TIMEOUT say otherwise: by themselves they would go on into the others' turns.
)";

struct Options {
  int rounds = 15;
  int threads = 0;
  std::string only;
  std::string type;
  bool json = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for_words(argc, argv, kHelp, [&](std::string_view name, const std::string& value) {
    if (name == "--json") options.json = true;
    else if (name == "--rounds") options.rounds = static_cast<int>(count_in(name, value));
    else if (name == "--threads") options.threads = static_cast<int>(count_in(name, value, 4096));
    else if (name == "--only") options.only = value;
    else if (name == "--type") options.type = value;
    else return false;
    return true;
  });
  return options;
}

double now(int threads) {
  timespec time{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Contestant {
  Job job;
  Job give = {};
  int times = 1;  // calls per round
  std::vector<double> seconds = {};
};

double seconds_of(const Contestant& one, int threads) {
  const double start = now(threads);
  for (int i = 0; i < one.times; ++i) one.job();
  return (now(threads) - start) / one.times;
}

// Chooses so many calls per round that the clock's resolution and the wake-up of threads do not matter.
void choose_times(Contestant& one, int threads) {
  constexpr double kRound = 0.006;
  one.job();
  one.times = std::clamp(static_cast<int>(kRound / seconds_of(one, threads)), 1, 10000);
}

void run_rounds(std::vector<Contestant>& all, int rounds, int threads) {
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t turn = 0; turn < all.size(); ++turn) {
      Contestant& one = all[(turn + static_cast<std::size_t>(round)) % all.size()];
      if (!one.job) continue;
      // The libraries' threads spin for a while after their work; this waits until they have stopped.
      if (threads > 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
      one.job();
      one.seconds.push_back(seconds_of(one, threads));
    }
  }
}

// Ends the benchmark if two results differ, since the time of a wrong product means nothing.
void expect_same(const Case& of, const std::string& name, const std::vector<float>& ours,
                 const std::vector<float>& other) {
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    largest = std::max(largest, static_cast<double>(std::abs(ours[i])));
    difference = std::max(difference, static_cast<double>(std::abs(ours[i] - other[i])));
  }
  if (difference <= 0.01 * largest) return;
  fmt::print(stderr, "bench_gemm: {} {}: {} differs by {} of {}\n", of.title, of.shape(), name, difference, largest);
  std::exit(1);
}

// How many times as fast ours is as another contestant: the median of the rounds' ratios.
double ratio_to(const Contestant& other, const Contestant& ours) {
  std::vector<double> of_rounds;
  for (std::size_t r = 0; r < other.seconds.size(); ++r) of_rounds.push_back(other.seconds[r] / ours.seconds[r]);
  return median(of_rounds);
}

// The ratios of one case: to each library, and to the fastest of them.
struct Ratios {
  std::vector<std::optional<double>> each;
  double least = 0;
};

Ratios ratios_of(const std::vector<Contestant>& all) {
  Ratios ratios;
  for (std::size_t i = 1; i < all.size(); ++i) {
    ratios.each.push_back(all[i].job ? std::optional(ratio_to(all[i], all[0])) : std::nullopt);
    if (ratios.each.back() && (ratios.least == 0 || *ratios.each.back() < ratios.least)) ratios.least = *ratios.each.back();
  }
  return ratios;
}

void report(const Case& of, const std::string& type, int threads, const std::vector<Library>& libraries,
            const std::vector<Contestant>& all, bool json, const Ratios& ratios) {
  const auto rate = [&](const Contestant& one) { return 1e-9 * of.operations() / median(one.seconds); };
  std::string line = json ? fmt::format(R"({{"threads":{},"type":"{}","product":"{}","shape":"{}","ours_gflops":{:.1f})", threads, type,
                                        of.title, of.shape(), rate(all[0]))
                          : fmt::format("{:<24} {:<29} {:>7.1f}", of.title, of.shape(), rate(all[0]));
  for (std::size_t i = 0; i < libraries.size(); ++i) {
    const std::optional<double> ratio = ratios.each[i];
    if (!ratio) line += json ? "" : fmt::format("{:>12} {:>6}", "-", "-");
    else if (json) line += fmt::format(R"(,"{0}_gflops":{1:.1f},"{0}_ratio":{2:.3f})", libraries[i].name, rate(all[i + 1]), *ratio);
    else line += fmt::format("{:>12.1f} {:>6.2f}", rate(all[i + 1]), *ratio);
  }
  fmt::print("{}{}\n", line, json ? "}" : "");
  std::fflush(stdout);
}

std::vector<Contestant> contestants(const Case& of, Trial& trial, const std::vector<Library>& libraries, int threads) {
  std::vector<Contestant> all{{trial.ours(threads)}};
  for (const Library& library : libraries) {
    const Contest one = library.prepare(trial.problem(), threads);
    all.push_back({one.job, one.give});
  }
  std::vector<float> expected;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].job) continue;
    trial.clear_result();
    choose_times(all[i], threads);
    if (all[i].give) all[i].give();
    if (i == 0) expected = trial.result();
    else expect_same(of, libraries[i - 1].name, expected, trial.result());
  }
  return all;
}

void summarise(const std::string& what, const std::vector<double>& least) {
  if (least.empty()) return;
  const auto below = std::count_if(least.begin(), least.end(), [](double ratio) { return ratio < 0.9; });
  fmt::print("{} {}, against the fastest library for each: median {:.2f}, least {:.2f}, {} below 0.9\n", least.size(), what, median(least),
             *std::min_element(least.begin(), least.end()), below);
}

void measure(const Options& options, const std::vector<Library>& libraries, bool bfloat16, int threads) {
  const std::string type = bfloat16 ? "bfloat16" : "float32";
  if (!options.type.empty() && options.type != type) return;
  if (!options.json) {
    fmt::print("\n{}, {} thread{}: GFLOP/s, and how many times as fast as the library ours is\n{:<54} {:>7}", type, threads,
               threads == 1 ? "" : "s", "products (rows x columns x depth)", "ours");
    for (const Library& library : libraries) fmt::print("{:>12} {:>6}", library.name, "ratio");
    fmt::print("\n");
  }
  std::vector<double> plain, grouped;
  for (const Case& of : cases()) {
    if ((of.title + " " + of.shape()).find(options.only) == std::string::npos) continue;
    Trial trial(of, bfloat16);
    std::vector<Contestant> all = contestants(of, trial, libraries, threads);
    run_rounds(all, options.rounds, threads);
    const Ratios ratios = ratios_of(all);
    if (ratios.least > 0) (of.is_grouped() ? grouped : plain).push_back(ratios.least);
    report(of, type, threads, libraries, all, options.json, ratios);
  }
  if (options.json) return;
  summarise("products", plain);
  summarise("products of groups", grouped);
}

// The libraries read these variables when they are loaded, so the program sets them and executes itself once more.
void make_threads_wait_briefly(char** argv) {
  constexpr std::pair<const char*, const char*> kWaits[] = {{"GOMP_SPINCOUNT", "100000"}, {"OPENBLAS_THREAD_TIMEOUT", "21"}};
  bool is_set = true;
  for (const auto& [name, value] : kWaits) is_set = is_set && std::getenv(name) != nullptr;
  if (is_set) return;
  for (const auto& [name, value] : kWaits) ::setenv(name, value, 0);
  ::execv("/proc/self/exe", argv);
}

int run(int argc, char** argv) {
  const Options options = parse(argc, argv);
  make_threads_wait_briefly(argv);
  std::vector<Library> libraries;
  for (const auto& [library, package] : {std::pair{onednn(), "libdnnl-dev"}, std::pair{openblas(), "libopenblas-dev"}}) {
    if (library) libraries.push_back(*library);
    else fmt::print(stderr, "bench_gemm: built without {}: nothing is held to it\n", package);
  }
  if (const auto padded = onednn_padded()) libraries.push_back(*padded);
  const std::string ours(backend::cpu::name_of(backend::cpu::chosen_isa()));
  if (!options.json) fmt::print("ours on {}", ours);
  for (const Library& library : libraries) {
    if (!options.json) fmt::print(", {} {}", library.name, library.version);
  }
  if (!options.json) fmt::print("\n");
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<int> counts{1, cores};
  if (options.threads > 0)
    counts = {options.threads};
  else if (cores == 1)
    counts = {1};
  for (const int threads : counts) {
    for (const bool bfloat16 : {false, true}) measure(options, libraries, bfloat16, threads);
  }
  return 0;
}

}  // namespace
}  // namespace moesh::bench

int main(int argc, char** argv) { return moesh::bench::with_errors_told([&] { return moesh::bench::run(argc, argv); }); }
