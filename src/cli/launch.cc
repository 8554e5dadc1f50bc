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
#include <optional>
#include <thread>

#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/machine_cores.h"
#include "base/system.h"
#include "base/terminal.h"
#include "base/text.h"
#include "store/folder.h"
#include "transport/processes.h"

namespace moesh::cli {
namespace {

constexpr int kNotFound = 127;
constexpr int kBadRequest = 2;
constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP, SIGUSR1};

volatile std::sig_atomic_t asked_by = 0, times_asked = 0;

// Only counts the signal. The loop that waits for the child process forwards it.
void on_signal(int signal) {
  asked_by = signal;
  times_asked = times_asked + 1;
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
    is_told_ = false;
    for (const auto& task : std::filesystem::directory_iterator(tasks_, error)) {
      std::ifstream children(task.path() / "children");
      is_told_ = is_told_ || children.good();
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
    return is_told_ && there_.empty();
  }
  // The ranks of the processes that disappeared first; empty if that is not known.
  const std::vector<int>& first_gone() const { return first_gone_; }
  // Whether all `count` processes have a handler for SIGUSR1, so that they end after their step on it. True if this system does not list
  // them.
  bool handle_requests(int count) const {
    if (!is_told_) return true;
    return std::count_if(there_.begin(), there_.end(), [&](pid_t id) { return numbers_.contains(id) && is_caught(id, SIGUSR1); }) == count;
  }

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

  // The line is "SigCgt: 0000000180004a07": a bit for each signal that has a handler.
  static bool is_caught(pid_t id, int signal) {
    std::ifstream file(fmt::format("/proc/{}/status", id));
    for (std::string line; std::getline(file, line);) {
      constexpr std::string_view kCaught = "SigCgt:";
      if (line.starts_with(kCaught)) return (std::strtoull(line.c_str() + kCaught.size(), nullptr, 16) >> (signal - 1) & 1) != 0;
    }
    return false;
  }

  bool is_told_ = false;  // whether this system lists the children of a process
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
                        "memory; {}",
                        who, numbers.size() > 1 ? "were" : "was", signal, ::strsignal(signal), transport::kWhatIsLeft));
}

void tell_mpirun_killed(int signal) {
  log_error(fmt::format("mpirun, which holds the processes of the run together, was ended by signal {} ({})\n  fix: look for what did "
                        "that; {}",
                        signal, ::strsignal(signal), transport::kWhatIsLeft));
}

// For a signal that makes the process that receives it end the run properly, with a checkpoint.
void tell_asked(int signal) {
  log_notice(fmt::format("signal {} ({}) to a process of the run has ended it", signal, ::strsignal(signal)));
}

bool asks_to_end(int signal) { return std::find(kSignals.begin(), kSignals.end(), signal) != kSignals.end(); }

// Forwards the launcher's signals to its child process. The first becomes SIGUSR1, which mpirun passes on to its processes, and which makes
// them end after their step. As long as some of them have no handler for it, there is no step to end and mpirun would drop the signal, so
// the child gets SIGTERM instead. Further signals become SIGTERM too.
class SignalForwarding {
 public:
  template <typename HandlesRequests>
  void forward(pid_t child, const HandlesRequests& handles_requests) {
    const int times = times_asked;
    if (times == seen_) return;
    seen_ = times;
    if (first_ && seconds_since(*first_) < kOneRequest) return;
    ::kill(child, !first_ && handles_requests() ? SIGUSR1 : SIGTERM);
    if (!first_) first_ = Clock::now();
  }

 private:
  // Seconds in which signals count as one: a caller such as `timeout` sends its signal both to the process and to its group.
  static constexpr double kOneRequest = 0.5;
  int seen_ = 0;
  std::optional<Clock::time_point> first_;
};

// Waits until the child process ends and returns its status, or nothing if the system cannot tell. Forwards signals meanwhile, and calls
// `look` at intervals.
template <typename Look, typename HandlesRequests>
std::optional<int> status_of(pid_t id, const Look& look, const HandlesRequests& handles_requests) {
  SignalForwarding signals;
  while (true) {
    int status = 0;
    const pid_t ended = ::waitpid(id, &status, WNOHANG);
    if (ended == id) return status;
    if (ended < 0 && errno != EINTR) return std::nullopt;
    look();
    signals.forward(id, handles_requests);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// mpirun may wait forever for a process that was killed while starting, so mpirun is killed once it has had no processes for a while.
int wait_for_mpirun(pid_t id, int processes) {
  constexpr double kAlone = 10;  // seconds
  Started started(id);
  auto had_any = Clock::now();
  bool is_given_up = false;
  const auto look = [&] {
    if (!started.are_gone())
      had_any = Clock::now();
    else if (seconds_since(had_any) > kAlone)
      is_given_up = ::kill(id, SIGKILL) == 0;
  };
  const std::optional<int> status = status_of(id, look, [&] { return started.handle_requests(processes); });
  if (!status) return 1;
  const int code = code_of(*status), signal = code - 128;
  if (signal <= 0 || signal >= NSIG || asked_by != 0) return code;
  if (WIFSIGNALED(*status) && !is_given_up)
    tell_mpirun_killed(signal);
  else if (asks_to_end(signal))
    tell_asked(signal);
  else
    tell_killed(signal, started.first_gone());
  return code;
}

int wait_for(pid_t id) {
  const std::optional<int> status = status_of(
      id, [] {}, [] { return true; });
  return status ? code_of(*status) : 1;
}

using FileClock = std::filesystem::file_time_type::clock;

// Whether a restart needs --from again. The first start sets aside all checkpoints after the step that --from names. If it died before
// that, some of them are still there, older than the launch, and the restart must not resume from one of those.
bool must_set_aside(const Launch& of, FileClock::time_point launched) {
  if (!of.from) return false;
  std::error_code error;
  for (const std::int64_t step : store::steps_in(of.checkpoints)) {
    const auto written = std::filesystem::last_write_time(store::checkpoint_path(of.checkpoints, step), error);
    if (step > *of.from && !error && written < launched) return true;
  }
  return false;
}

// mpirun's processes write to terminals that it makes for them, whatever their output goes to in the end.
void pass_on_columns() {
  const int columns = columns_of(Stream::out);
  if (columns > 0) ::setenv("COLUMNS", std::to_string(columns).c_str(), 1);
  else ::unsetenv("COLUMNS");
}

int run_once(const Launch& of, bool passes_from) {
  std::vector<std::string> words = command_line(of);
  if (passes_from) words.insert(words.end(), {"--from", std::to_string(*of.from)});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  // Signals are blocked until the child has reset its handlers, so that none is lost in between.
  sigset_t all, before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, &before);
  const pid_t id = ::fork();
  if (id != 0) ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (id < 0) fail("no process can be started: " + system_reason());
  if (id == 0) {
    ::setpgid(0, 0);  // a terminal's Ctrl-C then reaches only the parent, which forwards it
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    for (const int signal : kSignals) std::signal(signal, SIG_DFL);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    // Containers often run as root, and seldom let one process read another's memory.
    for (const char* variable : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}) ::setenv(variable, "1", 0);
    ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    if (of.processes > 1) pass_on_columns();
    ::execvp(arguments.front(), arguments.data());
    ::_exit(kNotFound);
  }
  return of.processes > 1 ? wait_for_mpirun(id, of.processes) : wait_for(id);
}

// Counts signals during its lifetime.
class CountedSignals {
 public:
  CountedSignals() {
    asked_by = 0;
    times_asked = 0;
    struct sigaction action {};
    action.sa_handler = on_signal;
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &before_[i]);
  }
  ~CountedSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  }
  CountedSignals(const CountedSignals&) = delete;
  CountedSignals& operator=(const CountedSignals&) = delete;

 private:
  std::array<struct sigaction, kSignals.size()> before_;
};

}  // namespace

int launch(const Launch& of) {
  if (of.processes > 1) transport::check_can_join();
  const CountedSignals signals;
  const auto launched = FileClock::now();
  for (int restarts = 0;; ++restarts) {
    const int code = run_once(of, restarts == 0 ? of.from.has_value() : must_set_aside(of, launched));
    if (asked_by != 0) return 128 + asked_by;
    if (code == kNotFound && of.processes > 1) refuse("mpirun is not there", "--processes", "install openmpi-bin and libopenmpi-dev");
    if (code == 0 || code == kBadRequest || restarts == of.restarts) return code;
    const bool has_checkpoint = !store::steps_in(of.checkpoints).empty();
    log_notice(fmt::format("the run ended with code {}; it is started again from its {}, {} of {}", code,
                           has_checkpoint ? "newest checkpoint" : "beginning, as it has no checkpoint yet", restarts + 1,
                           counted(of.restarts, "time")));
  }
}

}  // namespace moesh::cli
