// How long it takes from a command line to the layout of a model, as a whole process: wall time and peak memory.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

struct Run {
  double seconds = 0;
  double peak_mib = 0;
};

Run run_once(const std::vector<std::string>& command) {
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    const int sink = open("/dev/null", O_WRONLY);
    dup2(sink, STDOUT_FILENO);
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  if (status != 0) {
    fmt::print(stderr, "{} failed\n", command[1]);
    std::exit(1);
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return {elapsed.count(), static_cast<double>(usage.ru_maxrss) / 1024};
}

void measure(const std::string& title, const std::vector<std::string>& command, int runs) {
  std::vector<double> seconds;
  double peak = 0;
  for (int i = 0; i < runs; ++i) {
    const Run run = run_once(command);
    seconds.push_back(run.seconds);
    peak = std::max(peak, run.peak_mib);
  }
  std::sort(seconds.begin(), seconds.end());
  fmt::print("{:<44} {:8.1f} ms median  {:8.1f} ms worst  {:6.1f} MiB peak\n", title,
             1e3 * seconds[seconds.size() / 2], 1e3 * seconds.back(), peak);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string binary = argc > 1 ? argv[1] : MOESH_BINARY;
  const std::vector<std::string> deepseek{"model_name=deepseek3-671b", "compile_topology=tpu7x-8192",
                                          "ici_data_parallelism=16",
                                          "ici_expert_parallelism=64"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.begin(), binary);
    words.insert(words.end(), deepseek.begin(), deepseek.end());
    return words;
  };
  constexpr int kRuns = 21;
  measure("moesh --help", {binary, "--help"}, kRuns);
  measure("shardings deepseek3-671b on tpu7x-8192", with({"shardings"}), kRuns);
  measure("shardings --json, the same", with({"shardings", "--json"}), kRuns);
  measure("shardings --activations, 61 layers unscanned", with({"shardings", "--activations", "scan_layers=false"}), kRuns);
  measure("lint, the same scanned", with({"lint"}), kRuns);
}
