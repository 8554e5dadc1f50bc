#include "tokenizer/unicode.h"

#include <algorithm>
#include <array>

#include <utf8proc.h>

#include "base/text.h"

namespace moesh::tokenizer {
namespace {

unsigned char byte_at(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }

// The length in bytes of a sequence that begins with `first`; 0 if none does.
std::size_t length_by(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return 2;
  if (first >= 0xE0 && first <= 0xEF) return 3;
  if (first >= 0xF0 && first <= 0xF4) return 4;
  return 0;
}

// Overlong forms, surrogates and code points beyond U+10FFFF show in the second byte.
bool may_follow(unsigned char first, std::size_t place, unsigned char byte) {
  unsigned char least = 0x80, most = 0xBF;
  if (place == 1 && first == 0xE0) least = 0xA0;
  if (place == 1 && first == 0xED) most = 0x9F;
  if (place == 1 && first == 0xF0) least = 0x90;
  if (place == 1 && first == 0xF4) most = 0x8F;
  return byte >= least && byte <= most;
}

utf8proc_category_t category(CodePoint c) { return utf8proc_category(c); }

// Vowels and final consonants of Korean syllables, which combine with what precedes them.
bool is_joining_jamo(CodePoint c) { return is_in(c, 0x1161, 0x1175) || is_in(c, 0x11A8, 0x11C2); }

int options_of(UnicodeForm form) { return UTF8PROC_DECOMPOSE | (form.is_compatible ? UTF8PROC_COMPAT : 0); }

constexpr std::size_t kLongestDecomposition = 32;  // U+FDFA has 18 code points

using Decomposed = std::array<CodePoint, kLongestDecomposition>;

std::size_t decompose(CodePoint c, UnicodeForm form, Decomposed& to) {
  const auto options = static_cast<utf8proc_option_t>(options_of(form));
  int last_class = 0;
  const auto count = utf8proc_decompose_char(c, to.data(), static_cast<utf8proc_ssize_t>(to.size()), options, &last_class);
  return static_cast<std::size_t>(count);
}

int combining_class(CodePoint c) { return utf8proc_get_property(c)->combining_class; }

// Sorts the marks between two code points that do not combine by their combining class.
void order_marks(std::vector<CodePoint>& all) {
  for (auto at = all.begin(); at != all.end();) {
    const auto begin = std::find_if(at, all.end(), [](CodePoint c) { return combining_class(c) != 0; });
    const auto end = std::find_if(begin, all.end(), [](CodePoint c) { return combining_class(c) == 0; });
    std::stable_sort(begin, end, [](CodePoint a, CodePoint b) { return combining_class(a) < combining_class(b); });
    at = end;
  }
}

}  // namespace

Decoded code_point(std::string_view text, std::size_t at) {
  const unsigned char first = byte_at(text, at);
  const std::size_t bytes = length_by(first);
  if (bytes == 1) return {first, 1};
  CodePoint value = first & (0xFF >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) value = value << 6 | (byte_at(text, at + i) & 0x3F);
  return {value, bytes};
}

void append(std::string& text, CodePoint c) {
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(c, bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(count));
}

std::string utf8(CodePoint c) {
  std::string text;
  append(text, c);
  return text;
}

std::size_t count_code_points(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

Sequence sequence_at(std::string_view text, std::size_t at) {
  const unsigned char first = byte_at(text, at);
  const std::size_t length = length_by(first);
  if (length == 0) return {1, false};
  for (std::size_t i = 1; i < length; ++i) {
    if (at + i >= text.size() || !may_follow(first, i, byte_at(text, at + i))) return {i, false};
  }
  return {length, true};
}

std::string repaired(std::string_view text) {
  if (is_valid_utf8(text)) return std::string(text);
  std::string good;
  for (std::size_t at = 0; at < text.size();) {
    const Sequence sequence = sequence_at(text, at);
    good += sequence.is_valid ? text.substr(at, sequence.bytes) : kReplacement;
    at += sequence.bytes;
  }
  return good;
}

bool is_white_space(CodePoint c) {
  if (c < 0x80) return c == ' ' || is_in(c, '\t', '\r');
  return c == 0x85 || is_in(category(c), UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP);
}

bool is_numeric(CodePoint c) {
  if (c < 0x80) return is_in(c, '0', '9');
  return is_in(category(c), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool is_punctuation(CodePoint c) {
  if (c < 0x80) return is_in(c, '!', '/') || is_in(c, ':', '@') || is_in(c, '[', '`') || is_in(c, '{', '~');
  return is_in(category(c), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool is_mark(CodePoint c) { return c >= 0x80 && is_in(category(c), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME); }
bool is_nonspacing_mark(CodePoint c) { return c >= 0x80 && category(c) == UTF8PROC_CATEGORY_MN; }

bool is_control(CodePoint c) {
  if (c < 0x80) return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_CO;
}

bool is_ideograph(CodePoint c) {
  return is_in(c, 0x4E00, 0x9FFF) || is_in(c, 0x3400, 0x4DBF) || is_in(c, 0x20000, 0x2A6DF) ||
         is_in(c, 0x2A700, 0x2B73F) || is_in(c, 0x2B740, 0x2B81F) || is_in(c, 0x2B920, 0x2CEAF) ||
         is_in(c, 0xF900, 0xFAFF) || is_in(c, 0x2F800, 0x2FA1F);
}

std::string lowercase(CodePoint c) {
  constexpr CodePoint kDottedCapitalI = 0x130;  // the only one whose lower case is two code points
  return c == kDottedCapitalI ? "i\xCC\x87" : utf8(utf8proc_tolower(c));
}

bool is_boundary(CodePoint c, UnicodeForm form) {
  if (c < 0x300) return true;  // none of these combines with what precedes it
  Decomposed parts;
  if (decompose(c, form, parts) == 0) return true;
  return combining_class(parts[0]) == 0 && !is_mark(parts[0]) && !is_joining_jamo(parts[0]);
}

std::string normalized(std::string_view text, UnicodeForm form) {
  std::vector<CodePoint> all;
  for (std::size_t at = 0; at < text.size();) {
    const Decoded c = code_point(text, at);
    Decomposed parts;
    all.insert(all.end(), parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(decompose(c.value, form, parts)));
    at += c.bytes;
  }
  order_marks(all);
  if (form.composes) {
    const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    const auto count = utf8proc_normalize_utf32(all.data(), static_cast<utf8proc_ssize_t>(all.size()), options);
    all.resize(static_cast<std::size_t>(count));
  }
  std::string made;
  for (const CodePoint c : all) append(made, c);
  return made;
}

std::vector<std::size_t> grapheme_ends(std::string_view text) {
  std::vector<std::size_t> ends;
  utf8proc_int32_t state = 0;
  CodePoint before = -1;
  for (std::size_t at = 0; at < text.size();) {
    const Decoded c = code_point(text, at);
    if (before >= 0 && utf8proc_grapheme_break_stateful(before, c.value, &state)) ends.push_back(at);
    before = c.value;
    at += c.bytes;
  }
  if (!text.empty()) ends.push_back(text.size());
  return ends;
}

}  // namespace moesh::tokenizer
