#include "cli/launch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/machine_cores.h"
#include "base/system.h"
#include "base/text.h"

namespace moesh::cli {
namespace {

constexpr int kNotFound = 127;
constexpr int kBadRequest = 2;
constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP, SIGUSR1};

volatile std::sig_atomic_t child_process = 0, asked_by = 0;

// Forwards the first signal as SIGUSR1, which mpirun passes on to its processes; on the other signals it ends them all at once.
// Further signals are forwarded as SIGTERM.
void on_signal(int signal) {
  const int error = errno;
  if (child_process > 0) ::kill(static_cast<pid_t>(child_process), asked_by == 0 ? SIGUSR1 : SIGTERM);
  asked_by = signal;
  errno = error;
}

std::vector<std::string> command_line(const Launch& of) {
  std::vector<std::string> words;
  const int cores = usable_cores(), each = std::max(1, cores / of.processes);
  if (of.processes > 1) {
    words = {"mpirun", "-q", "-n", std::to_string(of.processes)};
    if (of.processes <= cores) words.insert(words.end(), {"--bind-to", "core", "--map-by", fmt::format("slot:PE={}", each)});
    else words.insert(words.end(), {"--bind-to", "none", "--oversubscribe"});
  }
  words.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  words.insert(words.end(), of.words.begin(), of.words.end());
  if (of.processes > cores && of.chooses_threads) words.insert(words.end(), {"--threads", std::to_string(each)});
  return words;
}

// The processes that mpirun has started, with their ranks.
class Started {
 public:
  explicit Started(pid_t mpirun) : tasks_(fmt::format("/proc/{}/task", mpirun)) {}

  // Updates the list of processes. True if none is left; false if this system does not list the children of a process.
  bool are_gone() {
    std::vector<pid_t> there;
    std::error_code error;
    bool is_told = false;
    for (const auto& task : std::filesystem::directory_iterator(tasks_, error)) {
      std::ifstream children(task.path() / "children");
      is_told = is_told || children.good();
      for (pid_t id = 0; children >> id;) {
        if (!is_alive(id)) continue;
        there.push_back(id);
        if (!numbers_.contains(id)) read_number(id);
      }
    }
    if (first_gone_.empty()) {
      for (const pid_t id : there_) {
        const bool is_gone = std::find(there.begin(), there.end(), id) == there.end();
        if (is_gone && numbers_.contains(id)) first_gone_.push_back(numbers_.at(id));
      }
    }
    there_ = std::move(there);
    return is_told && there_.empty();
  }
  // The ranks of the processes that disappeared first; empty if that is not known.
  const std::vector<int>& first_gone() const { return first_gone_; }

 private:
  // The line is "30038 (name) S 30037 ..."; the name may contain any characters, so the last ") " is searched for.
  static bool is_alive(pid_t id) {
    std::ifstream file(fmt::format("/proc/{}/stat", id));
    std::string text;
    std::getline(file, text);
    const std::size_t end = text.rfind(") ");
    return end != std::string::npos && text[end + 2] != 'Z';
  }
  // A child has no rank in its environment until it executes the program of the run.
  void read_number(pid_t id) {
    std::ifstream file(fmt::format("/proc/{}/environ", id));
    for (std::string variable; std::getline(file, variable, '\0');) {
      constexpr std::string_view kRank = "OMPI_COMM_WORLD_RANK=";
      if (variable.starts_with(kRank)) numbers_[id] = static_cast<int>(parse_integer(variable.substr(kRank.size())).value_or(0));
    }
  }

  std::filesystem::path tasks_;
  std::map<pid_t, int> numbers_;
  std::vector<pid_t> there_;
  std::vector<int> first_gone_;
};

// The exit code as a shell reports it: 128 + N for signal N.
int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

// Reports processes that were killed, since they cannot do so themselves.
void tell_killed(int signal, const std::vector<int>& processes) {
  std::vector<std::string> numbers;
  for (const int number : processes) numbers.push_back(std::to_string(number));
  const std::string who = numbers.empty() ? "a process" : fmt::format("process{} {}", numbers.size() > 1 ? "es" : "", join(numbers, ", "));
  log_error(fmt::format("{} of the run {} ended by signal {} ({})\n  fix: look for what did that, such as a machine that ran out of "
                        "memory; the newest checkpoint is whole",
                        who, numbers.size() > 1 ? "were" : "was", signal, ::strsignal(signal)));
}

// mpirun may wait forever for a process that was killed while starting, so mpirun is killed once it has had no processes for a while.
int wait_for_mpirun(pid_t id) {
  using namespace std::chrono_literals;
  constexpr auto kAlone = 10s;
  Started started(id);
  auto had_any = std::chrono::steady_clock::now();
  while (true) {
    int status = 0;
    const pid_t ended = ::waitpid(id, &status, WNOHANG);
    if (ended < 0 && errno != EINTR) return 1;
    if (ended == id) {
      const int code = code_of(status);
      if (code > 128 && asked_by == 0) tell_killed(code - 128, started.first_gone());
      return code;
    }
    const auto now = std::chrono::steady_clock::now();
    if (!started.are_gone()) had_any = now;
    else if (now - had_any > kAlone) ::kill(id, SIGKILL);
    std::this_thread::sleep_for(20ms);
  }
}

int wait_for(pid_t id) {
  int status = 0;
  while (::waitpid(id, &status, 0) != id) {
    if (errno != EINTR) return 1;
  }
  return code_of(status);
}

int run_once(const Launch& of) {
  std::vector<std::string> words = command_line(of);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t id = ::fork();
  if (id < 0) fail("no process can be started: " + system_reason());
  if (id == 0) {
    ::setpgid(0, 0);  // a terminal's Ctrl-C then reaches only the parent, which forwards it
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    for (const int signal : kSignals) std::signal(signal, SIG_DFL);
    // Containers often run as root, and seldom let one process read another's memory.
    for (const char* variable : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}) ::setenv(variable, "1", 0);
    ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    ::execvp(arguments.front(), arguments.data());
    ::_exit(kNotFound);
  }
  child_process = id;
  const int code = of.processes > 1 ? wait_for_mpirun(id) : wait_for(id);
  child_process = 0;
  return code;
}

// Forwards signals to the child process during its lifetime.
class HandedOn {
 public:
  HandedOn() {
    asked_by = 0;
    struct sigaction action {};
    action.sa_handler = on_signal;
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &before_[i]);
  }
  ~HandedOn() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  }
  HandedOn(const HandedOn&) = delete;
  HandedOn& operator=(const HandedOn&) = delete;

 private:
  std::array<struct sigaction, kSignals.size()> before_;
};

}  // namespace

int launch(const Launch& of) {
  const HandedOn signals;
  for (int restarts = 0;; ++restarts) {
    const int code = run_once(of);
    if (asked_by != 0) return 128 + asked_by;
    if (code == kNotFound && of.processes > 1) refuse("mpirun is not there", "--processes", "install openmpi-bin and libopenmpi-dev");
    if (code == 0 || code == kBadRequest || restarts == of.restarts) return code;
    log_notice(fmt::format("the run ended with code {}; it is started again from its newest checkpoint, {} of {}", code, restarts + 1,
                           counted(of.restarts, "time")));
  }
}

}  // namespace moesh::cli
