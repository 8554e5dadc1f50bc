#include "train/interrupts.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <time.h>
#include <unistd.h>

#include "base/terminal.h"

namespace moesh::train {
namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP, SIGUSR1};

constexpr std::string_view kEraseLine = "\r\033[K";

std::atomic<const char*> answered{""};
std::atomic<int> asked_by{0}, unanswered_signal{0};
std::atomic<bool> redraws{false};

static_assert(std::atomic<int>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free &&
              std::atomic<long long>::is_always_lock_free);

// A caller may send a signal both to the process and to its group, as `timeout` does: signals in quick succession count as one.
constexpr long kOneWish = 500'000'000;  // nanoseconds

std::atomic<long long> asked_at{0};

long long now() {
  struct timespec time {};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

void tell(std::string_view words) {
  [[maybe_unused]] const ssize_t told = ::write(STDERR_FILENO, words.data(), words.size());
}

// It may run between any two instructions, so it allocates nothing and uses no stream.
void on_signal(int signal) {
  int nobody = 0;
  if (!asked_by.compare_exchange_strong(nobody, signal)) {
    const long long first = asked_at;
    if (first != 0 && now() - first > kOneWish) std::_Exit(128 + signal);
    return;
  }
  asked_at = now();
  if (signal == unanswered_signal) return;
  const int error = errno;
  const std::string_view answer = answered.load();
  if (redraws && !answer.empty()) tell(kEraseLine);
  tell(answer);
  errno = error;
}

}  // namespace

Interrupts::Interrupts(const char* answer, int unanswered) {
  answered = answer;
  unanswered_signal = unanswered;
  asked_by = 0;
  asked_at = 0;
  redraws = can_redraw(Stream::error);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  struct sigaction ignored {};
  ignored.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignored, &pipe_before_);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &before_[i]);
    if (kSignals[i] == SIGHUP && before_[i].sa_handler == SIG_IGN) continue;
    ::sigaction(kSignals[i], &action, nullptr);
  }
}

Interrupts::~Interrupts() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  ::sigaction(SIGPIPE, &pipe_before_, nullptr);
}

bool Interrupts::asked() const { return asked_by != 0; }

int Interrupts::signal() const { return asked_by; }

int Interrupts::exit_code() const { return 128 + signal(); }

}  // namespace moesh::train
