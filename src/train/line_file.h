// A file that lines are appended to, by one run at a time.
#pragma once

#include <string>
#include <string_view>

#include "base/descriptor.h"

namespace moesh::train {

class LineFile {
 public:
  // Opens `path`, or creates it and the folders above it. Existing lines stay, except for a last one that a killed run left
  // unfinished. Refuses a file that does not begin with `signature`, which is thus not one of ours, and one that another run has
  // open. Pipes, terminals and other devices are not checked.
  LineFile(std::string path, std::string_view signature);
  ~LineFile();  // removes the file if it was made here and nothing was written
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // Writes the line and its newline, or nothing. Fails if the file has been removed, as nobody would ever read the line.
  void append(std::string_view line);
  const std::string& path() const { return path_; }
  bool had_lines() const { return had_lines_; }  // whether there were lines before this run

 private:
  void take(std::string_view signature);

  std::string path_;
  Descriptor file_;
  bool is_regular_ = false;
  bool has_name_ = false;  // when it was opened; one that is passed on by its descriptor may have none
  bool is_new_ = false;
  bool had_lines_ = false;
};

}  // namespace moesh::train
