#include "base/progress.h"

#include <algorithm>
#include <unistd.h>

#include <fmt/core.h>

#include "base/streams.h"

namespace moesh {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr double kRedraw = 0.1;  // seconds, on a terminal
constexpr double kLine = 10;     // seconds, elsewhere
constexpr int kBar = 24;         // columns

std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  return whole >= 60 ? fmt::format("{}:{:02}", whole / 60, whole % 60) : fmt::format("{:.0f} s", seconds);
}

}  // namespace

Progress::Progress(std::string title, std::int64_t total)
    : title_(std::move(title)), total_(std::max<std::int64_t>(1, total)), terminal_(isatty(STDERR_FILENO) != 0),
      start_(Clock::now()), last_(start_) {}

Progress::~Progress() { clear(); }

void Progress::advance(std::int64_t done, const std::string& note) {
  done_ = done;
  note_ = note;
  if (Seconds(Clock::now() - last_).count() < (terminal_ ? kRedraw : kLine)) return;
  last_ = Clock::now();
  draw();
}

void Progress::print(const std::string& line) {
  clear();
  fmt::print("{}\n", line);
  flush_output();
  if (terminal_) draw();
}

void Progress::draw() {
  const double elapsed = Seconds(Clock::now() - start_).count();
  const double part = static_cast<double>(done_) / static_cast<double>(total_);
  const double left = done_ > 0 ? elapsed * (1 - part) / part : 0;
  const auto full = static_cast<std::size_t>(part * kBar);
  const std::string about = fmt::format("{} {}/{}  {} left  {}", title_, done_, total_, duration(left), note_);
  if (terminal_) {
    say(fmt::format("\r\033[K[{}{}] {}", std::string(full, '#'), std::string(kBar - full, '.'), about));
    drawn_ = true;
  } else {
    say(fmt::format("moesh: {}\n", about));
  }
}

void Progress::clear() {
  if (drawn_) say("\r\033[K");
  drawn_ = false;
}

}  // namespace moesh
