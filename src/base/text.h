// Small helpers for words, numbers and units in messages and tables.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moesh {

std::string join(const std::vector<std::string>& words, std::string_view separator);
std::string few_of(const std::vector<std::string>& words, std::size_t most = 5);  // "a, b and 3 more", with the first few
std::vector<std::string> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);
std::string lower(std::string_view text);

// Whole-string parses; nothing if the text is anything else or the number does not fit. Integers may have '_' between digits.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<double> parse_real(std::string_view text);

// "1.50 GiB", "640 B"; "46.7 B" for counts of parameters ("1,234" below a million).
std::string human_bytes(double bytes);
std::string human_bytes(std::integral auto bytes) { return human_bytes(static_cast<double>(bytes)); }
std::string human_count(double count);
// "0.42 ms", "3.1 s", "12:05 min", "3:20:00 h".
std::string human_seconds(double seconds);
std::string with_commas(std::int64_t value);

// "1 warning", "2 warnings"; for nouns that take an s.
std::string counted(std::int64_t count, std::string_view noun);

// The candidates nearest to `word` by edit distance, best first; none that is more than a typo or two away.
std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates, int limit = 3);

bool is_valid_utf8(std::string_view text);
std::string as_utf8(std::string_view text);  // each byte that is not part of a character becomes U+FFFD

// Display columns of UTF-8 text, the first `columns` of it, and the text cut to at most `columns` with an ellipsis at its end or its start.
int display_width(std::string_view text);
std::string_view first_columns(std::string_view text, int columns);
std::string shorten(std::string_view text, int columns);
std::string shorten_start(std::string_view text, int columns);

// Breaks lines at blanks so that none is wider than `columns` (0: no limit). Continuation lines are indented as their line is, and by
// `indent` more. A word that is wider stays whole.
std::string wrapped(std::string_view text, int columns, int indent = 0);

}  // namespace moesh
