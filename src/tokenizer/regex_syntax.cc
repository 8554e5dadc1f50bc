#include "tokenizer/regex_syntax.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <array>
#include <pcre2.h>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::tokenizer {
namespace {

constexpr std::string_view kHexDigits = "0-9A-Fa-f";
constexpr int kMostDepth = 64;

struct NamedClass {
  std::string_view name, members;
};
constexpr std::array<NamedClass, 9> kNamedClasses{{{"alpha", R"(\p{Alphabetic})"},
                                                   {"digit", R"(\p{Nd})"},
                                                   {"alnum", R"(\p{Alphabetic}\p{Nd})"},
                                                   {"upper", R"(\p{Uppercase})"},
                                                   {"lower", R"(\p{Lowercase})"},
                                                   {"space", kSpaceCharacters},
                                                   {"word", R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})"},
                                                   {"punct", R"(\p{P}\p{S})"},
                                                   {"xdigit", kHexDigits}}};

// Whether a property is a script. PCRE2 takes "Han" for the characters that Han texts use, which are more than its own.
bool is_script(std::string_view name) {
  const std::string pattern = fmt::format("\\p{{sc:{}}}", name);
  int error = 0;
  PCRE2_SIZE place = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF, &error, &place, nullptr);
  const bool is_known = code != nullptr;
  pcre2_code_free(code);
  return is_known && name.find_first_of("^:={}") == std::string_view::npos;
}

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f'); }

class Translation {
 public:
  Translation(std::string_view pattern, const std::string& where) : from_(pattern), where_(where) {}

  std::string run() {
    while (at_ < from_.size()) step();
    return std::move(to_);
  }

 private:
  // What a class matches: members that fit into one class of PCRE2, and others that are expressions for one character.
  struct Union {
    std::string members;
    std::vector<std::string> others;
  };

  char peek(std::size_t ahead = 0) const { return at_ + ahead < from_.size() ? from_[at_ + ahead] : '\0'; }
  bool starts(std::string_view text) const { return from_.substr(at_).starts_with(text); }
  [[noreturn]] void no(const std::string& what) const {
    refuse(fmt::format("the regular expression '{}' has {}, which is not done", shorten(from_, 120), what), where_,
           "a tokenizer whose expressions are plainer");
  }

  void step() {
    switch (peek()) {
      case '\\': return atom(escape());
      case '[': return atom(one_of());
      case '(': return open();
      case ')': return close();
      case '{': return interval();
      case '*':
      case '+':
      case '?':
      case '|': to_ += from_[at_++]; return;
      default: return atom(character());
    }
  }

  void atom(const std::string& text) {
    begin_ = to_.size();
    to_ += text;
  }

  std::string character() {
    std::string text(1, from_[at_++]);
    while (at_ < from_.size() && (from_[at_] & 0xC0) == 0x80) text += from_[at_++];
    return text;
  }

  void open() {
    groups_.push_back(to_.size());
    to_ += from_[at_++];
    if (peek() != '?') return;
    to_ += from_[at_++];
    if (starts("<") || starts("=") || starts("!") || starts(">") || starts("#") || starts("P")) return;
    // Flags. Ruby's m lets a dot match line ends, which is PCRE2's s.
    for (; at_ < from_.size() && peek() != ':' && peek() != ')'; ++at_) {
      if (peek() != 'i' && peek() != 'm' && peek() != 'x' && peek() != '-') no(fmt::format("the flag '{}'", peek()));
      to_ += peek() == 'm' ? 's' : peek();
    }
  }

  void close() {
    if (!groups_.empty()) {
      begin_ = groups_.back();
      groups_.pop_back();
    }
    to_ += from_[at_++];
  }

  // After {n,m} a + repeats the whole, and after {n} a ? makes it optional. PCRE2 reads both in another way.
  void interval() {
    std::size_t end = at_ + 1;
    while (end < from_.size() && ((from_[end] >= '0' && from_[end] <= '9') || from_[end] == ',')) ++end;
    if (end >= from_.size() || from_[end] != '}' || end == at_ + 1) return atom("\\" + character());
    const std::string_view text = from_.substr(at_, end + 1 - at_);
    if (text == "{,}") return atom("\\" + character());
    at_ = end + 1;
    const bool is_fixed = text.find(',') == std::string_view::npos;
    const bool is_wrapped = peek() == '+' || (peek() == '?' && is_fixed);
    if (is_wrapped) to_.insert(begin_, "(?:");
    if (text.starts_with("{,")) to_ += "{0";
    to_ += text.starts_with("{,") ? text.substr(1) : text;
    if (is_wrapped) to_ += ")";
  }

  // A backslash and what follows it, outside of classes.
  std::string escape() {
    const char kind = peek(1);
    const auto known = [&](std::string_view members, bool negated) {
      at_ += 2;
      return fmt::format("[{}{}]", negated ? "^" : "", members);
    };
    switch (kind) {
      case 's':
      case 'S': return known(kSpaceCharacters, kind == 'S');
      case 'w':
      case 'W': return known(kWordCharacters, kind == 'W');
      case 'h':
      case 'H': return known(kHexDigits, kind == 'H');
      case 'b':
      case 'B': at_ += 2; return word_edge(kind == 'b');
      default: return plain_escape();
    }
  }

  static std::string word_edge(bool is_one) {
    const std::string word = fmt::format("[{}]", kWordCharacters);
    const char *same = is_one ? "!" : "=", *other = is_one ? "=" : "!";
    return fmt::format("(?:(?<={0})(?{1}{0})|(?<!{0})(?{2}{0}))", word, same, other);
  }

  // Escapes that mean the same in both syntaxes.
  std::string plain_escape() {
    if (at_ + 1 >= from_.size()) no("a backslash at its end");
    const std::size_t begin = at_;
    const char kind = from_[at_ + 1];
    at_ += 1;
    character();
    if (kind == 'u') return unicode_escape();
    if (kind == 'p' || kind == 'P') return property(kind);
    if (kind == 'Q' || kind == 'E') return std::string(1, kind);  // which quote in PCRE2
    if (kind == 'x' || kind == 'k' || kind == 'g') skip_argument(kind == 'x');
    return std::string(from_.substr(begin, at_ - begin));
  }

  // Without braces it is but a letter.
  std::string property(char kind) {
    if (peek() != '{') return std::string(1, kind);
    const std::size_t begin = at_;
    skip_argument(false);
    const std::string_view argument = from_.substr(begin, at_ - begin);
    if (!argument.ends_with('}')) no("a property without an end");
    const bool is_other = argument.substr(1).starts_with('^');
    const std::string_view name = argument.substr(is_other ? 2 : 1, argument.size() - (is_other ? 3 : 2));
    return fmt::format("\\{}{{{}{}{}}}", kind, is_other ? "^" : "", is_script(name) ? "sc:" : "", name);
  }

  void skip_argument(bool is_hex_number) {
    if (peek() == '{' || peek() == '<') {
      const char end = peek() == '{' ? '}' : '>';
      while (at_ < from_.size() && from_[at_] != end) ++at_;
      if (at_ < from_.size()) ++at_;
    } else if (is_hex_number) {
      for (int i = 0; i < 2 && is_hex(peek()); ++i) ++at_;
    }
  }

  std::string unicode_escape() {
    const std::string_view digits = from_.substr(at_, 4);
    for (const char c : digits) {
      if (!is_hex(c)) no("\\u without four digits");
    }
    at_ += digits.size();
    return fmt::format("\\x{{{}}}", digits);
  }

  // Reads a class and returns an expression that matches one character.
  std::string one_of() {
    if (++depth_ > kMostDepth) no("classes within classes, too deep");
    ++at_;
    const bool negated = peek() == '^';
    if (negated) ++at_;
    std::vector<std::string> both;
    Union all;
    for (bool is_first = true; peek() != ']' || is_first; is_first = false) {
      if (at_ >= from_.size()) no("a class without an end");
      if (starts("&&")) {
        both.push_back(expression(all, false));
        all = {};
        at_ += 2;
      } else {
        member(all);
      }
    }
    ++at_;
    --depth_;
    if (both.empty()) return expression(all, negated);
    std::string made = "(?:";
    for (const std::string& one : both) made += "(?=" + one + ")";
    made += expression(all, false) + ")";
    return negated ? none_of(made) : made;
  }

  void member(Union& all) {
    if (starts("[:")) return named(all);
    if (peek() == '[') return all.others.push_back(one_of());
    if (peek() != '\\') {
      all.members += character();
      return;
    }
    switch (peek(1)) {
      case 's': all.members += kSpaceCharacters; break;
      case 'w': all.members += kWordCharacters; break;
      case 'h': all.members += kHexDigits; break;
      case 'b': all.members += "\\x08"; break;
      case 'S':
      case 'W':
      case 'H': all.others.push_back(escape()); return;
      default: all.members += plain_escape(); return;
    }
    at_ += 2;
  }

  void named(Union& all) {
    const std::size_t end = from_.find(":]", at_);
    const std::string_view name = end == std::string_view::npos ? "" : from_.substr(at_ + 2, end - at_ - 2);
    for (const NamedClass& known : kNamedClasses) {
      if (known.name != name) continue;
      all.members += known.members;
      at_ = end + 2;
      return;
    }
    no(fmt::format("the class [:{}:]", shorten(name, 20)));
  }

  static std::string none_of(const std::string& expression) { return "(?:(?!" + expression + ")(?s:.))"; }

  static std::string expression(const Union& all, bool negated) {
    if (all.others.empty() && !all.members.empty()) return fmt::format("[{}{}]", negated ? "^" : "", all.members);
    std::vector<std::string> ways = all.others;
    if (!all.members.empty()) ways.push_back("[" + all.members + "]");
    const std::string any = ways.empty() ? "(?!)" : "(?:" + join(ways, "|") + ")";
    return negated ? none_of(any) : any;
  }

  std::string_view from_;
  const std::string& where_;
  std::size_t at_ = 0;
  std::string to_;
  std::size_t begin_ = 0;            // where the item that a quantifier would repeat begins
  std::vector<std::size_t> groups_;  // where the groups that are still open begin
  int depth_ = 0;
};

}  // namespace

std::string to_pcre2(std::string_view pattern, const std::string& where) { return Translation(pattern, where).run(); }

}  // namespace moesh::tokenizer
