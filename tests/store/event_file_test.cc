// Event files and PNG images, checked byte by byte.
#include "store/event_file.h"

#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>
#include <zlib.h>

#include "store/png.h"
#include "tests/support.h"

namespace moesh::store {
namespace {

TEST(Crc32c, IsCastagnolis) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
}

TEST(Protobuf, WritesNumbersTextsAndMessages) {
  EXPECT_EQ(ProtobufWriter().integer(2, 300).text(), "\x10\xAC\x02");
  EXPECT_EQ(ProtobufWriter().integer(1, -1).text(), "\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01");
  EXPECT_EQ(ProtobufWriter().bytes(16, "ab").text(), "\x82\x01\x02"
                                                     "ab");
  EXPECT_EQ(ProtobufWriter().real32(2, 1.0f).text(), std::string("\x15\0\0\x80\x3F", 5));
  EXPECT_EQ(ProtobufWriter().real(1, 2.0).text(), std::string("\x09\0\0\0\0\0\0\0\x40", 9));
  const double numbers[] = {2.0};
  EXPECT_EQ(ProtobufWriter().reals(6, numbers).text(), std::string("\x32\x08\0\0\0\0\0\0\0\x40", 10));
  EXPECT_EQ(ProtobufWriter().message(1, ProtobufWriter().integer(1, 5)).text(), "\x0A\x02\x08\x05");
}

std::uint64_t number_at(const std::string& text, std::size_t at, std::size_t bytes) {
  std::uint64_t number = 0;
  std::memcpy(&number, text.data() + at, bytes);
  return number;
}

std::uint64_t masked(std::string_view bytes) {
  const std::uint32_t sum = crc32c(bytes);
  return (sum >> 15 | sum << 17) + 0xA282EAD8u;
}

TEST(EventFile, HasEachEventBehindItsLengthWithChecksums) {
  const test::TemporaryFolder folder;
  EventFile file(folder.path() + "/a/b");
  file.add(ProtobufWriter().integer(2, 7));
  const std::string text = test::read_text(file.path());
  std::vector<std::string> events;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = number_at(text, at, 8);
    ASSERT_LE(at + length + 16, text.size());
    EXPECT_EQ(number_at(text, at + 8, 4), masked(std::string_view(text).substr(at, 8)));
    events.push_back(text.substr(at + 12, length));
    EXPECT_EQ(number_at(text, at + 12 + length, 4), masked(events.back()));
    at += length + 16;
  }
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].substr(0, 15), "\x1A\x0D" "brain.Event:2");
  EXPECT_EQ(events[1].substr(0, 3), "\x10\x07\x09") << "the step, then the time";
  EXPECT_NE(EventFile(folder.path() + "/a/b").path(), file.path());
}

TEST(Png, HoldsTheShadesLineByLine) {
  const std::vector<std::uint8_t> shades{0, 128, 255, 1, 2, 3};
  const std::string png = png_of(shades, 3);
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_EQ(png.substr(12, 4), "IHDR");
  EXPECT_EQ(png.substr(16, 13), std::string("\0\0\0\x03\0\0\0\x02\x08\0\0\0\0", 13));
  EXPECT_EQ(png.substr(37, 4), "IDAT");
  const std::size_t size = static_cast<unsigned char>(png[36]);
  Bytef made[16];
  uLongf count = sizeof made;
  ASSERT_EQ(::uncompress(made, &count, reinterpret_cast<const Bytef*>(png.data()) + 41, size), Z_OK);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(made), count), std::string("\0\0\x80\xFF\0\x01\x02\x03", 8));
}

}  // namespace
}  // namespace moesh::store
