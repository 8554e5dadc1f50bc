// Code points of UTF-8 text, and their Unicode properties.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moesh::tokenizer {

using CodePoint = std::int32_t;

constexpr bool is_in(CodePoint c, CodePoint least, CodePoint most) { return c >= least && c <= most; }

struct Decoded {
  CodePoint value;
  std::size_t bytes;
};

// The code point that begins at `at` of valid text.
Decoded code_point(std::string_view text, std::size_t at);
void append(std::string& text, CodePoint c);
std::string utf8(CodePoint c);
std::size_t count_code_points(std::string_view text);

// How many bytes at `at` form a code point. If they do not, the number of bytes that could have begun one, and `is_valid` is false.
struct Sequence {
  std::size_t bytes;
  bool is_valid;
};
Sequence sequence_at(std::string_view text, std::size_t at);

// Each invalid part becomes one U+FFFD, as in most readers.
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
std::string repaired(std::string_view text);

bool is_white_space(CodePoint c);
bool is_numeric(CodePoint c);
bool is_punctuation(CodePoint c);  // also ASCII characters that Unicode counts as symbols
bool is_mark(CodePoint c);
bool is_nonspacing_mark(CodePoint c);
bool is_control(CodePoint c);    // also format and private-use characters; not tab, line feed and carriage return
bool is_ideograph(CodePoint c);  // in the blocks whose characters are split one by one
std::string lowercase(CodePoint c);

// Unicode's normalisation forms. A text may be normalised piece by piece if each piece begins at a boundary.
struct UnicodeForm {
  bool composes;       // NFC, NFKC
  bool is_compatible;  // NFKC, NFKD
};
bool is_boundary(CodePoint c, UnicodeForm form);
std::string normalized(std::string_view text, UnicodeForm form);

// The ends of user-perceived characters (graphemes), in order.
std::vector<std::size_t> grapheme_ends(std::string_view text);

}  // namespace moesh::tokenizer
