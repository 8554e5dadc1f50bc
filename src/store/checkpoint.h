// Reads a checkpoint: only the bytes that are needed, whose hashes are checked.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/workers.h"
#include "base/descriptor.h"
#include "store/index.h"
#include "store/parts.h"

namespace moesh::store {

class Checkpoint {
 public:
  // Opens all files, so that they can be read even if somebody removes them. Refuses files that are missing, cut short or damaged. Like
  // all functions here, it fails if the system does not let it read a file.
  explicit Checkpoint(std::string folder);

  const Index& index() const { return index_; }
  const std::string& folder() const { return folder_; }

  // Fills parts of a tensor. Refuses a tensor that is damaged, in which case the contents of the parts must not be used.
  void read(const std::string& tensor, const std::vector<Part>& to, backend::Workers& workers);
  std::int64_t bytes_read() const { return bytes_read_; }

  // Reads the whole checkpoint, and returns a line for each damaged chunk.
  std::vector<std::string> damage(backend::Workers& workers);

 private:
  struct Wanted {
    const Piece* piece;
    std::int64_t chunk;
  };
  const Tensor& tensor(const std::string& name) const;
  void read_chunk(const std::string& name, DType dtype, const Wanted& wanted, const std::vector<Part>& to);

  std::string folder_;
  Index index_;
  std::vector<Descriptor> files_;
  std::atomic<std::int64_t> bytes_read_ = 0;
};

}  // namespace moesh::store
