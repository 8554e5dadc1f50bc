// The files of a data set as one sequence of bytes that is read where it is needed, whatever its size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

namespace moesh::train {

struct DataFile {
  std::string path;
  std::int64_t begin = 0;  // in the sequence
  std::int64_t bytes = 0;
  dev_t device = 0;  // with the inode: which file it is, whatever its path leads to later
  ino_t inode = 0;
};

class DataFiles {
 public:
  // A file, or all files below a folder by the order of their paths: each once, however many links lead to it, without
  // hidden ones. Refuses what cannot be read and what holds nothing.
  explicit DataFiles(const std::string& path);

  const std::vector<DataFile>& files() const { return files_; }
  std::int64_t size() const { return size_; }

  // The bytes from `first` on. Fails where a file is no longer what it was.
  void read(std::int64_t first, std::span<std::byte> bytes) const;

 private:
  void add_folder(const std::string& path);
  void add(DataFile file);

  std::vector<DataFile> files_;
  std::int64_t size_ = 0;
};

}  // namespace moesh::train
