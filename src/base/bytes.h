// Copying and clearing bytes.
#pragma once

#include <cstdint>
#include <cstring>

namespace moesh {

// As memcpy and memset, which must not be given null even if there is nothing to do.
inline void copy_bytes(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
inline void zero_bytes(void* to, std::int64_t bytes) {
  if (bytes > 0) std::memset(to, 0, static_cast<std::size_t>(bytes));
}

}  // namespace moesh
