// Runs the binary as a separate process, with the streams and signals that a test wants.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/paths.h"
#include "tests/support.h"

namespace moesh::test {

// The exit code as a shell reports it: 128 plus the signal's number if a signal killed the process.
inline int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

// Runs a shell command line and returns its exit code.
inline int shell(const std::string& line) { return code_of(std::system(line.c_str())); }

// Waits for up to a minute, and returns whether the condition became true.
inline bool wait_until(const std::function<bool()>& is_true) {
  for (int i = 0; i < 6000; ++i) {
    if (is_true()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// The binary in a process group of its own, with its output in files. The destructor kills it if it still runs.
class Process {
 public:
  Process(const std::string& words, const std::string& folder) : out_(folder + "/out"), err_(folder + "/err") {
    std::vector<std::string> all = words_of(words);
    all.insert(all.begin(), binary());
    std::vector<char*> arguments;
    for (std::string& word : all) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    id_ = ::fork();
    if (id_ == 0) {
      ::setpgid(0, 0);
      for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(signal, SIG_DFL);
      redirect(STDOUT_FILENO, out_);
      redirect(STDERR_FILENO, err_);
      ::execv(arguments.front(), arguments.data());
      ::_exit(127);
    }
    ::setpgid(id_, id_);
  }
  ~Process() {
    if (id_ > 0) send(SIGKILL), wait();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t id() const { return id_; }
  void send(int signal) const { ::kill(id_, signal); }
  void send_to_group(int signal) const { ::kill(-id_, signal); }
  int wait() {
    int status = 0;
    ::waitpid(id_, &status, 0);
    id_ = 0;
    return code_of(status);
  }
  std::string out() const { return read_text(out_); }
  std::string err() const { return read_text(err_); }

 private:
  static void redirect(int stream, const std::string& path) {
    ::dup2(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), stream);
  }

  std::string out_, err_;
  pid_t id_ = 0;
};

// Sends a signal to a process that was found. An id of 0 is not passed on: it would mean the process group of the test itself.
inline void kill_process(pid_t id, int signal) {
  EXPECT_GT(id, 0) << "no such process";
  if (id > 0) ::kill(id, signal);
}

// The id of a child of the process; 0 if it has none.
inline pid_t child_of(const Process& process) {
  std::ifstream children(fmt::format("/proc/{}/task/{}/children", process.id(), process.id()));
  pid_t id = 0;
  children >> id;
  return id;
}

// Whether runs of several processes can be tested here.
inline bool has_mpi() {
  static const bool has = std::filesystem::exists(std::filesystem::path(binary()).parent_path() / "libmoesh_mpi.so") &&
                          shell("command -v mpirun >/dev/null") == 0;
  return has;
}
inline constexpr const char* kNeedsMpi = "several processes need MPI: install what packages-test.txt lists, and configure the build again";

// The id of the process with this rank in the run that writes into this folder; 0 if there is none.
inline pid_t process_of(const std::string& folder, int number) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto id = parse_integer(entry.path().filename().string());
    if (!id || read_text(entry.path() / "cmdline").find(folder) == std::string::npos) continue;
    const std::string variable = fmt::format("OMPI_COMM_WORLD_RANK={}", number) + '\0';
    if (read_text(entry.path() / "environ").find(variable) != std::string::npos) return static_cast<pid_t>(*id);
  }
  return 0;
}

}  // namespace moesh::test
