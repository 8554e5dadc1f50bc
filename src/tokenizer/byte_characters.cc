#include "tokenizer/byte_characters.h"

#include <array>

namespace moesh::tokenizer {
namespace {

constexpr CodePoint kFirstOther = 0x100;

// Printable bytes stand for themselves; the others are mapped, in order, to the characters from U+0100 on.
constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

struct Alphabet {
  std::array<std::string, 256> of_byte;
  std::array<int, 0x200> byte_of;

  Alphabet() {
    byte_of.fill(-1);
    CodePoint other = kFirstOther;
    for (int byte = 0; byte < 256; ++byte) {
      const CodePoint c = stands_for_itself(byte) ? byte : other++;
      of_byte[static_cast<std::size_t>(byte)] = utf8(c);
      byte_of[static_cast<std::size_t>(c)] = byte;
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet made;
  return made;
}

}  // namespace

void write_as_characters(const TracedText& text, Bytes part, Revision& revision) {
  const Alphabet& known = alphabet();
  const std::string_view all = text.text();
  for (std::uint32_t at = part.begin; at < part.end;) {
    std::uint32_t end = at;
    while (end < part.end && all[end] >= '!' && all[end] <= '~') ++end;
    if (end > at) revision.keep({at, end});
    at = end;
    for (; at < part.end && !(all[at] >= '!' && all[at] <= '~'); ++at) {
      revision.replace({at, at + 1}, known.of_byte[static_cast<unsigned char>(all[at])]);
    }
  }
}

std::optional<std::string> bytes_of_characters(std::string_view token) {
  const Alphabet& known = alphabet();
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const Decoded c = code_point(token, at);
    at += c.bytes;
    const int byte =
        c.value < static_cast<CodePoint>(known.byte_of.size()) ? known.byte_of[static_cast<std::size_t>(c.value)] : -1;
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace moesh::tokenizer
