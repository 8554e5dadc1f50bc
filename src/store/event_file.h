// Files of events as TensorBoard reads them: messages one after the other, each with its length and checksums.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "store/protobuf.h"

namespace moesh::store {

std::uint32_t crc32c(std::string_view bytes);

class EventFile {
 public:
  // A new file in `folder`, which is made; nobody else has its name.
  explicit EventFile(const std::string& folder);

  // `event`: without its time, which is now. It is in the file when this returns.
  void add(ProtobufWriter event);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Descriptor file_;
  std::int64_t end_ = 0;
};

}  // namespace moesh::store
