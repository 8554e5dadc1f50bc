#include "cli/launch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
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

volatile std::sig_atomic_t child = 0, asked_by = 0;

// mpirun hands SIGUSR1 on, and answers the others by ending all at once.
void on_signal(int signal) {
  const int error = errno;
  if (child > 0) ::kill(static_cast<pid_t>(child), asked_by == 0 ? SIGUSR1 : SIGTERM);
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

// Processes that a process has started and that are not gone.
bool has_children(pid_t parent) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    std::ifstream file(entry.path() / "stat");
    std::string text;
    // "30038 (name) S 30037 ...", where a name may hold anything.
    if (!std::getline(file, text)) continue;
    const std::vector<std::string> fields = split(text.substr(std::min(text.size(), text.rfind(')') + 2)), ' ');
    if (fields.size() > 1 && fields[0] != "Z" && fields[1] == std::to_string(parent)) return true;
  }
  return false;
}

// mpirun may wait for ever for a process that was killed while it began: without any process left it is ended.
int wait_for(pid_t id, bool is_mpirun) {
  using namespace std::chrono_literals;
  constexpr auto kAlone = 10s;
  auto had_children = std::chrono::steady_clock::now(), looked = had_children;
  while (true) {
    int status = 0;
    const pid_t ended = ::waitpid(id, &status, is_mpirun ? WNOHANG : 0);
    if (ended == id) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (ended < 0 && errno != EINTR) return 1;
    if (!is_mpirun) continue;
    std::this_thread::sleep_for(50ms);
    const auto now = std::chrono::steady_clock::now();
    if (now - looked < 1s) continue;
    looked = now;
    if (has_children(id)) had_children = now;
    else if (now - had_children > kAlone) ::kill(id, SIGKILL);
  }
}

// As a shell says it.
int run_once(const Launch& of) {
  std::vector<std::string> words = command_line(of);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t id = ::fork();
  if (id < 0) fail("no process can be started: " + system_reason());
  if (id == 0) {
    ::setpgid(0, 0);  // a terminal's Ctrl-C is ours to hand on
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    for (const int signal : kSignals) std::signal(signal, SIG_DFL);
    // Containers run as root, and seldom let one process read another's memory.
    for (const char* variable : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}) ::setenv(variable, "1", 0);
    ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    ::execvp(arguments.front(), arguments.data());
    ::_exit(kNotFound);
  }
  child = id;
  const int code = wait_for(id, of.processes > 1);
  child = 0;
  return code;
}

// Signals are handed on while it lives.
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
