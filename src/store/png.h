// Pictures in shades of grey as PNG files have them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace moesh::store {

// Line by line, 0 black and 255 white.
std::string png_of(std::span<const std::uint8_t> shades, std::int64_t width);

}  // namespace moesh::store
