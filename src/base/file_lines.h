// The lines of a file one after the other, even if the file is larger than memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/descriptor.h"

namespace moesh {

class FileLines {
 public:
  // `what`: "the metrics", for messages. Refuses a path that is not a regular file. At most `longest` bytes of each line are kept.
  FileLines(const std::string& path, const std::string& what, const std::string& fix, std::size_t longest = std::size_t{64} << 20);

  struct Line {
    std::string text;        // without its newline
    std::int64_t begin = 0;  // offset in the file
    bool has_end = false;    // it ends with a newline; otherwise the file ends with it
    bool is_cut = false;     // it is longer than `longest`
  };
  // False if there is no line left.
  bool next(Line& line);
  // Makes the line that begins at this offset the next one.
  void go_to(std::int64_t begin);

 private:
  bool fill();

  std::string path_, what_, fix_;
  std::size_t longest_;
  Descriptor file_;
  std::string block_;
  std::size_t at_ = 0;      // offset in the block
  std::int64_t place_ = 0;  // offset in the file of what follows the block
};

}  // namespace moesh
