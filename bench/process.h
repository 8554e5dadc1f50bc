// Runs whole processes and measures their wall time and peak memory.
#pragma once

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

namespace moesh::bench {

struct Run {
  double seconds = 0;
  double peak_mib = 0;
};

inline Run run_once(const std::vector<std::string>& command) {
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
  if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) {  // 1: what it looked at is not in order, as when `lint` finds errors
    fmt::print(stderr, "{} failed\n", command[1]);
    std::exit(1);
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return {elapsed.count(), static_cast<double>(usage.ru_maxrss) / 1024};
}

inline void measure(const std::string& title, const std::vector<std::string>& command, int runs) {
  std::vector<double> seconds;
  double peak = 0;
  for (int i = 0; i < runs; ++i) {
    const Run run = run_once(command);
    seconds.push_back(run.seconds);
    peak = std::max(peak, run.peak_mib);
  }
  std::sort(seconds.begin(), seconds.end());
  fmt::print("{:<44} {:8.1f} ms median  {:8.1f} ms worst  {:6.1f} MiB peak\n", title, 1e3 * seconds[seconds.size() / 2],
             1e3 * seconds.back(), peak);
}

}  // namespace moesh::bench
