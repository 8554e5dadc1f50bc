// A file that lines are added to, by one run at a time.
#pragma once

#include <string>
#include <string_view>

#include "base/descriptor.h"

namespace moesh::train {

class LineFile {
 public:
  // Opens `path`, or makes it and the folders above it. What stands in it stays, but for a last line that a killed run
  // left unfinished. Refuses a file that does not begin with `signature`, which is thus not one of ours, and one that
  // another run has open. Pipes, terminals and their kind have neither a beginning nor an owner.
  LineFile(std::string path, std::string_view signature);

  void append(std::string_view line);  // whole, with its end, or not at all
  const std::string& path() const { return path_; }
  bool had_lines() const { return had_lines_; }  // before this run

 private:
  void take(std::string_view signature);

  std::string path_;
  Descriptor file_;
  bool is_regular_ = false;
  bool had_lines_ = false;
};

}  // namespace moesh::train
