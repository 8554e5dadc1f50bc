// A reader of documents in files that are cut into blocks of bytes.
#pragma once

#include <utility>

#include "data/files.h"
#include "data/reader.h"

namespace moesh::data {

class FileReader : public DocumentReader {
 public:
  std::int64_t bytes() const final { return files_.size(); }
  std::int64_t blocks() const final { return blocks_.count(); }

 protected:
  static constexpr std::int64_t kBlock = 64 << 10;  // bytes

  explicit FileReader(DataFiles files) : files_(std::move(files)), blocks_(files_.files(), kBlock) {}

  const DataFiles& files() const { return files_; }
  const std::string& path() const { return files_.files().front().path; }
  FileBlock at(std::int64_t block) const { return blocks_.at(block); }

 private:
  DataFiles files_;
  FileBlocks blocks_;
};

}  // namespace moesh::data
