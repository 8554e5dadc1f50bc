// The one progress display: a line that is redrawn on a terminal, plain lines now and then elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace moesh {

class Progress {
 public:
  Progress(std::string title, std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(std::int64_t done, const std::string& note = {});
  // A line of its own, above the display.
  void print(const std::string& line);

 private:
  void draw();
  void clear();

  std::string title_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  std::string note_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace moesh
