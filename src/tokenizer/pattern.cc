#include "tokenizer/pattern.h"

#include "tokenizer/regex_syntax.h"

namespace moesh::tokenizer {
namespace {

using Search = std::variant<Regex::Matcher, std::string, CharacterTest>;

Search search_of(const Pattern& pattern) {
  if (const auto* regex = std::get_if<Regex>(&pattern)) return Regex::Matcher(*regex);
  if (const auto* string = std::get_if<std::string>(&pattern)) return *string;
  return std::get<CharacterTest>(pattern);
}

}  // namespace

Pattern read_pattern(const Json& json, const std::string& where) {
  if (json.is_object() && json.contains("Regex"))
    return Regex(to_pcre2(member<std::string>(json, "Regex", where), where), where);
  const auto string = member<std::string>(json, "String", where);
  if (string.empty()) refuse("an empty string stands as a pattern", where);
  return string;
}

Finder::Finder(const Pattern& pattern) : pattern_(search_of(pattern)) {}

void Finder::add(std::size_t begin, std::size_t end, bool is_match) {
  found_.push_back({{static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)}, is_match});
}

void Finder::find_all(Regex::Matcher& matcher, std::string_view text) {
  std::size_t done = 0;
  matcher.begin(text);
  while (const auto match = matcher.next()) {
    if (match->begin > done) add(done, match->begin, false);
    add(match->begin, match->end, true);
    done = match->end;
  }
  if (done < text.size()) add(done, text.size(), false);
}

void Finder::find_all(const std::string& string, std::string_view text) {
  std::size_t done = 0;
  for (std::size_t at = text.find(string); at != std::string_view::npos; at = text.find(string, done)) {
    if (at > done) add(done, at, false);
    done = at + string.size();
    add(at, done, true);
  }
  if (done < text.size()) add(done, text.size(), false);
}

void Finder::find_all(CharacterTest test, std::string_view text) {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Decoded c = code_point(text, at);
    if (test(c.value)) {
      if (at > done) add(done, at, false);
      done = at + c.bytes;
      add(at, done, true);
    }
    at += c.bytes;
  }
  if (done < text.size()) add(done, text.size(), false);
}

const std::vector<Finder::Match>& Finder::find(std::string_view text) {
  found_.clear();
  std::visit([&](auto& pattern) { find_all(pattern, text); }, pattern_);
  return found_;
}

}  // namespace moesh::tokenizer
