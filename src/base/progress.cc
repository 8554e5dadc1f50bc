#include "base/progress.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/streams.h"
#include "base/terminal.h"
#include "base/text.h"

namespace moesh {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr double kRedraw = 0.1;  // seconds between redraws on a terminal
constexpr double kLine = 10;     // seconds between lines elsewhere
constexpr int kBar = 24;         // columns
constexpr int kUsualColumns = 80;  // of a terminal that does not report its width

int hiding = 0;  // number of HiddenProgress objects that hide the displays

// Rounded up, as the remaining time is a guess: never "0 s left" while something is left.
std::string left_words(double seconds) {
  const double whole = std::max(1.0, std::ceil(seconds));
  return (whole < 60 ? fmt::format("{:.0f} s", whole) : human_seconds(whole)) + " left";
}

}  // namespace

HiddenProgress::HiddenProgress(bool hides) : hides_(hides) { hiding += hides_ ? 1 : 0; }

HiddenProgress::~HiddenProgress() { hiding -= hides_ ? 1 : 0; }

Progress::Progress(std::string title, std::int64_t total)
    : title_(std::move(title)), total_(std::max<std::int64_t>(1, total)), is_shown_(hiding == 0), redraws_(can_redraw(Stream::error)),
      start_(Clock::now()), last_(start_) {
  if (redraws_) draw();
}

Progress::~Progress() { clear(); }

bool Progress::is_due() const { return Seconds(Clock::now() - last_).count() >= (redraws_ ? kRedraw : kLine); }

void Progress::set(std::int64_t done, const std::string& note) {
  done_ = std::min(done, total_);
  note_ = note;
}

void Progress::advance(std::int64_t done, const std::string& note) {
  set(done, note);
  if (is_due()) draw();
}

void Progress::advance(std::int64_t done, const std::string& note, const std::string& line) {
  clear();
  fmt::print("{}\n", line);
  flush_output();
  set(done, note);
  // The display was erased for the line.
  if (redraws_ || is_due()) draw();
}

// "step 3/60  12 s left  loss 5.1": the remaining time is known once something is done.
std::string Progress::words() const {
  std::string text = fmt::format("{} {}/{}", title_, done_, total_);
  if (done_ > 0) {
    const double elapsed = Seconds(Clock::now() - start_).count();
    text += "  " + left_words(elapsed * static_cast<double>(total_ - done_) / static_cast<double>(done_));
  }
  return note_.empty() ? text : text + "  " + note_;
}

void Progress::draw() {
  last_ = Clock::now();
  clear();
  if (!is_shown_ || done_ >= total_) return;
  if (!redraws_) {
    say(fmt::format("moesh: {}\n", words()));
    return;
  }
  const auto full = static_cast<std::size_t>(done_ * kBar / total_);
  // A line that reaches the last column would wrap, and only its second half could be erased.
  const std::string line = fmt::format("[{}{}] {}", std::string(full, '#'), std::string(kBar - full, '.'), words());
  const int columns = columns_of(Stream::error);
  say(shorten(line, (columns > 0 ? columns : kUsualColumns) - 1));
  drawn_ = true;
}

void Progress::clear() {
  if (drawn_) say(erase_line(Stream::error));
  drawn_ = false;
}

}  // namespace moesh
