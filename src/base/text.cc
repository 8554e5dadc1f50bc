#include "base/text.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <fmt/core.h>

namespace moesh {
namespace {

// The length in bytes of the UTF-8 sequence that starts with `lead`; 0 if none can start with it.
int sequence_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

// Overlong forms, surrogates and code points beyond U+10FFFF differ from valid text in the second byte.
bool second_byte_fits(unsigned char lead, unsigned char second) {
  switch (lead) {
    case 0xE0: return second >= 0xA0;
    case 0xED: return second <= 0x9F;
    case 0xF0: return second >= 0x90;
    case 0xF4: return second <= 0x8F;
    default: return true;
  }
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

template <std::size_t N>
std::string scaled(double value, double step, const std::array<const char*, N>& units) {
  std::size_t unit = 0;
  while (std::abs(value) >= step && unit + 1 < N) {
    value /= step;
    ++unit;
  }
  const int digits = unit == 0 ? 0 : std::abs(value) < 10 ? 2 : 1;
  return fmt::format("{:.{}f} {}", value, digits, units[unit]);
}

// from_chars accepts a minus sign only; a plus sign is skipped here.
const char* skip_plus(std::string_view text) {
  const bool plus = text.size() > 1 && text[0] == '+' && text[1] != '-';
  return text.data() + (plus ? 1 : 0);
}

std::string wrapped_line(const std::string& line, int columns, int indent) {
  const std::size_t blanks = std::min(line.find_first_not_of(' '), line.size());
  const std::string start(blanks + static_cast<std::size_t>(indent), ' ');
  std::string text;
  std::string part = line.substr(0, blanks);
  bool is_empty = true;
  for (const std::string& word : split(std::string_view(line).substr(blanks), ' ')) {
    if (!is_empty && display_width(part) + 1 + display_width(word) > columns) {
      text += part + "\n";
      part = start;
      is_empty = true;
    }
    part += (is_empty ? "" : " ") + word;
    is_empty = false;
  }
  return text + part;
}

constexpr std::size_t kLongestName = 200;  // nothing longer is a typo of a name

}  // namespace

std::string join(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}

std::string few_of(const std::vector<std::string>& words, std::size_t most) {
  if (words.size() <= most + 1) return join(words, ", ");
  return fmt::format("{} and {} more", join({words.begin(), words.begin() + static_cast<std::ptrdiff_t>(most)}, ", "), words.size() - most);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
    } else if (i == 0 || i + 1 == text.size() || text[i - 1] == '_' || text[i - 1] == '-') {
      return std::nullopt;
    }
  }
  const char* begin = skip_plus(digits);
  const char* end = digits.data() + digits.size();
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(begin, end, value);
  if (error != std::errc{} || rest != end || begin == end) return std::nullopt;
  return value;
}

std::optional<double> parse_real(std::string_view text) {
  if (const auto integer = parse_integer(text)) return static_cast<double>(*integer);
  const char* begin = skip_plus(text);
  const char* end = text.data() + text.size();
  double value = 0;
  const auto [rest, error] = std::from_chars(begin, end, value);
  if (error != std::errc{} || rest != end || begin == end || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string human_bytes(double bytes) {
  return scaled(bytes, 1024.0, std::array{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"});
}

std::string human_count(double count) {
  if (std::abs(count) < 1e6) return with_commas(static_cast<std::int64_t>(count));
  return scaled(count / 1e3, 1e3, std::array{"K", "M", "B", "T", "Q"});
}

std::string human_seconds(double seconds) {
  if (seconds < 1) return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 0.01 ? 2 : 0);
  if (seconds < 60) return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 2 : 1);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02} h", with_commas(whole / 3600), whole / 60 % 60, whole % 60);
}

std::string with_commas(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string counted(std::int64_t count, std::string_view noun) {
  return with_commas(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates, int limit) {
  if (word.size() > kLongestName) return {};
  const std::string wanted = lower(word);
  const int farthest = std::max(2, static_cast<int>(wanted.size()) / 4);
  std::vector<std::pair<int, std::string>> ranked;
  for (const std::string& candidate : candidates) {
    const std::string name = lower(candidate);
    int distance = edit_distance(wanted, name);
    // A part of a long name is a likelier guess than its edit distance suggests.
    if (wanted.size() >= 4 && name.find(wanted) != std::string::npos) distance = std::min(distance, 2);
    if (distance <= farthest) ranked.emplace_back(distance, candidate);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> best;
  for (const auto& [distance, candidate] : ranked) {
    if (static_cast<int>(best.size()) == limit) break;
    best.push_back(candidate);
  }
  return best;
}

namespace {

// The length of the character that begins there; 0 if none does.
std::size_t character_bytes(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const auto length = static_cast<std::size_t>(sequence_length(lead));
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t k = 1; k < length; ++k) {
    const auto byte = static_cast<unsigned char>(text[at + k]);
    if ((byte & 0xC0) != 0x80 || (k == 1 && !second_byte_fits(lead, byte))) return 0;
  }
  return length;
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t bytes = character_bytes(text, i);
    if (bytes == 0) return false;
    i += bytes;
  }
  return true;
}

std::string as_utf8(std::string_view text) {
  std::string made;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t bytes = character_bytes(text, i);
    made += bytes == 0 ? "\xEF\xBF\xBD" : text.substr(i, bytes);
    i += std::max<std::size_t>(bytes, 1);
  }
  return made;
}

int display_width(std::string_view text) {
  int columns = 0;
  for (const char c : text) columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return columns;
}

std::string_view first_columns(std::string_view text, int columns) {
  int width = 0;
  const auto is_behind = [&](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80 && ++width > columns; };
  const auto end = std::find_if(text.begin(), text.end(), is_behind);
  return text.substr(0, static_cast<std::size_t>(end - text.begin()));
}

std::string shorten(std::string_view text, int columns) {
  return display_width(text) <= columns ? std::string(text) : std::string(first_columns(text, columns - 1)) + "…";
}

std::string shorten_start(std::string_view text, int columns) {
  int width = display_width(text);
  if (width <= columns) return std::string(text);
  std::size_t begin = 0;
  while (begin < text.size() && width > columns - 1) {
    ++begin;
    while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) ++begin;
    --width;
  }
  return "…" + std::string(text.substr(begin));
}

std::string wrapped(std::string_view text, int columns, int indent) {
  std::string all;
  for (const std::string& line : split(text, '\n')) {
    const bool fits = columns <= 0 || display_width(line) <= columns;
    all += (fits ? line : wrapped_line(line, columns, indent)) + "\n";
  }
  all.pop_back();
  return all;
}

}  // namespace moesh
