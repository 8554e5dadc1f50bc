// Translates regular expressions of tokenizers, which are written for Oniguruma in Ruby's syntax, to the syntax of PCRE2.
#pragma once

#include <string>
#include <string_view>

namespace moesh::tokenizer {

// The characters of a word, as the inside of a class: for Oniguruma, and for Rust's expressions, which some steps use.
inline constexpr std::string_view kWordCharacters = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";
inline constexpr std::string_view kRustWordCharacters = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D})";
inline constexpr std::string_view kSpaceCharacters = R"(\t-\r\x{85}\p{Z})";

// The two differ in what \s, \w, \h and \b match, in classes within classes and their intersections, in what the flag `m` means, and in
// what a `+` after an interval means. What has no counterpart is refused with `where`.
std::string to_pcre2(std::string_view pattern, const std::string& where);

}  // namespace moesh::tokenizer
