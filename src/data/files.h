// The files of a data set as one sequence of bytes, which is read where it is needed, whatever its size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

namespace moesh::data {

struct DataFile {
  std::string path;
  std::int64_t begin = 0;  // offset in the sequence
  std::int64_t bytes = 0;
  dev_t device = 0;  // with the inode: identifies the file, whatever its path leads to later
  ino_t inode = 0;
};

class DataFiles {
 public:
  // A file, or all files below a folder in the order of their paths: each once, however many links lead to it, and no hidden ones. Refuses
  // what cannot be read or is empty.
  explicit DataFiles(const std::string& path);

  const std::vector<DataFile>& files() const { return files_; }
  std::int64_t size() const { return size_; }
  // Equal for files of the same sizes in the same order, if their beginnings and ends are equal too.
  const std::string& identity() const { return identity_; }

  // Reads the bytes from `first` on. Fails if a file is no longer what it was.
  void read(std::int64_t first, std::span<std::byte> bytes) const;
  // A part of one of the files.
  std::string text(const DataFile& file, std::int64_t begin, std::int64_t end) const;

 private:
  void add_folder(const std::string& path);
  void add(DataFile file);
  void identify();

  std::vector<DataFile> files_;
  std::int64_t size_ = 0;
  std::string identity_;
};

// A part of a file; a block never spans two files.
struct FileBlock {
  const DataFile* file;
  std::int64_t begin, end;  // offsets in the file
};

// Files cut into blocks of `bytes` bytes; the last block of each file may be shorter.
class FileBlocks {
 public:
  FileBlocks(const std::vector<DataFile>& files, std::int64_t bytes);
  std::int64_t count() const { return begins_.back(); }
  FileBlock at(std::int64_t block) const;

 private:
  const std::vector<DataFile>& files_;
  std::int64_t bytes_;
  std::vector<std::int64_t> begins_;  // the number of each file's first block, then the number of blocks
};

}  // namespace moesh::data
