// The lines of a file, one after the other, of a file that may be larger than the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/descriptor.h"

namespace moesh {

class FileLines {
 public:
  // `what`: "the metrics", for messages. Refuses what is no file. Of a line no more than `longest` bytes are kept.
  FileLines(const std::string& path, const std::string& what, const std::string& fix, std::size_t longest = std::size_t{64} << 20);

  struct Line {
    std::string text;        // without its end
    std::int64_t begin = 0;  // in the file
    bool has_end = false;    // else the file ends with it
    bool is_cut = false;     // it is longer than what is kept
  };
  // False where none is left.
  bool next(Line& line);
  // The next line is the one that begins there.
  void go_to(std::int64_t begin);

 private:
  bool fill();

  std::string path_, what_, fix_;
  std::size_t longest_;
  Descriptor file_;
  std::string block_;
  std::size_t at_ = 0;      // in the block
  std::int64_t place_ = 0;  // of what follows the block, in the file
};

}  // namespace moesh
