// Writes safetensors files for tests.
#pragma once

#include <cstdint>
#include <string>

namespace moesh::test {

inline std::string length_word(std::uint64_t length) {
  return {reinterpret_cast<const char*>(&length), sizeof(length)};
}

// The bytes of a file: the header's length, the header, the data.
inline std::string safetensors(const std::string& header, const std::string& data) {
  return length_word(header.size()) + header + data;
}

}  // namespace moesh::test
