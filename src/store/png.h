// Encodes pictures in shades of grey as PNG files.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace moesh::store {

// Row-major; 0 is black and 255 is white.
std::string png_of(std::span<const std::uint8_t> shades, std::int64_t width);

}  // namespace moesh::store
