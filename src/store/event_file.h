// Files of events as TensorBoard reads them: one message after the other, each with its length and checksums.
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
  // Creates a new file in `folder`, and the folder if it does not exist. The name of the file is unique.
  explicit EventFile(const std::string& folder);

  // `event`: without a time, which is set here. The event has been written when this returns.
  void add(ProtobufWriter event);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Descriptor file_;
  std::int64_t end_ = 0;
};

}  // namespace moesh::store
