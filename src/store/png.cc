#include "store/png.h"

#include <cassert>
#include <string_view>

#include <zlib.h>

namespace moesh::store {
namespace {

std::string big_endian(std::uint32_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift & 0xFF);
  return text;
}

std::string chunk(std::string_view kind, std::string_view data) {
  const std::string body = std::string(kind) + std::string(data);
  const uLong sum = ::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + body + big_endian(static_cast<std::uint32_t>(sum));
}

std::string compressed(std::string_view data) {
  uLongf size = ::compressBound(data.size());
  std::string made(size, '\0');
  [[maybe_unused]] const int done =
      ::compress(reinterpret_cast<Bytef*>(made.data()), &size, reinterpret_cast<const Bytef*>(data.data()), data.size());
  assert(done == Z_OK && "there is room");
  made.resize(size);
  return made;
}

}  // namespace

std::string png_of(std::span<const std::uint8_t> shades, std::int64_t width) {
  const std::size_t columns = static_cast<std::size_t>(width), lines = shades.size() / columns;
  constexpr std::string_view kEightBitsOfGrey{"\x08\0\0\0\0", 5};
  std::string rows;
  for (std::size_t line = 0; line < lines; ++line) {
    rows += '\0';  // filter type 0: the line follows unchanged
    rows.append(reinterpret_cast<const char*>(shades.data() + line * columns), columns);
  }
  const std::string header = big_endian(static_cast<std::uint32_t>(columns)) + big_endian(static_cast<std::uint32_t>(lines));
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header + std::string(kEightBitsOfGrey)) + chunk("IDAT", compressed(rows)) + chunk("IEND", "");
}

}  // namespace moesh::store
