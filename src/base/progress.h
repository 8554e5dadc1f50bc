// The only progress display: a line that is redrawn on a terminal, and plain lines at intervals elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace moesh {

// No progress is displayed during the lifetime of an object that was made with `hides`.
class HiddenProgress {
 public:
  explicit HiddenProgress(bool hides);
  ~HiddenProgress();
  HiddenProgress(const HiddenProgress&) = delete;
  HiddenProgress& operator=(const HiddenProgress&) = delete;

 private:
  bool hides_;
};

// The line stays on standard error from construction until all is done or the display is destroyed.
class Progress {
 public:
  Progress(std::string title, std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(std::int64_t done, const std::string& note = {});
  // The same, and prints a line to standard output, above the display.
  void advance(std::int64_t done, const std::string& note, const std::string& line);

 private:
  void set(std::int64_t done, const std::string& note);
  bool is_due() const;
  void draw();
  void clear();
  std::string words() const;

  std::string title_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  std::string note_;
  bool is_shown_, redraws_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace moesh
