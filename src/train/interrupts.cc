#include "train/interrupts.h"

#include <atomic>
#include <csignal>
#include <cstdlib>

namespace moesh::train {
namespace {

std::atomic<bool> interrupted{false};

}  // namespace

Interrupts::Interrupts() {
  interrupted = false;
  previous_ = std::signal(SIGINT, [](int) {
    if (interrupted.exchange(true)) std::_Exit(130);
  });
}

Interrupts::~Interrupts() { std::signal(SIGINT, previous_); }

bool Interrupts::asked() const { return interrupted; }

int Interrupts::exit_code() const { return interrupted ? 130 : 0; }

}  // namespace moesh::train
