#include "foreign/words.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::foreign {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kSigns = "|;&<>()";

bool is_one_of(char c, std::string_view all) { return all.find(c) != std::string_view::npos; }

class Splitter {
 public:
  Splitter(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  std::vector<ShellWord> words() {
    while (at_ < text_.size()) step();
    end_word();
    return std::move(words_);
  }

 private:
  void step() {
    const char c = text_[at_];
    if (c == '\\') {
      escaped();
    } else if (c == '\'' || c == '"') {
      quoted(c);
    } else if (c == '#' && !in_word_) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (is_one_of(c, kBlanks)) {
      end_word();
      ++at_;
    } else if (is_one_of(c, kSigns) && !is_bracket_of_word()) {
      if (is_one_of(c, "<>") && is_number()) word_.clear(), in_word_ = false;
      end_word();
      words_.push_back({std::string(1, c), true});
      ++at_;
    } else {
      put(c);
      ++at_;
    }
  }

  // Parentheses in ([0]*3+[1]*58)*2, (127,0) and $(...) are part of a word.
  bool is_bracket_of_word() const {
    const bool is_bracket = is_one_of(text_[at_], "()");
    const bool begins_pattern = text_[at_] == '(' && at_ + 1 < text_.size() && is_one_of(text_[at_ + 1], "[(0123456789");
    return is_bracket && (in_word_ || begins_pattern);
  }

  // Whether the current word is a number; before < or >, as in 2>&1, it is a file descriptor and not a word.
  bool is_number() const { return in_word_ && word_.find_first_not_of("0123456789") == std::string::npos; }

  // A backslash before a line end is dropped with the line end, so that the command continues on the next line.
  void escaped() {
    const std::size_t next = at_ + 1;
    if (next >= text_.size()) {
      at_ = next;
    } else if (text_[next] == '\n' || text_.substr(next, 2) == "\r\n") {
      at_ = text_.find('\n', next) + 1;
    } else {
      put(text_[next]);
      at_ += 2;
    }
  }

  void quoted(char quote) {
    const std::size_t begin = at_++;
    in_word_ = true;
    for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
      const bool escapes = quote == '"' && text_[at_] == '\\' && at_ + 1 < text_.size();
      if (escapes && text_[at_ + 1] == '\n') {
        ++at_;
        continue;
      }
      if (escapes && is_one_of(text_[at_ + 1], "\"\\$`")) ++at_;
      put(text_[at_]);
    }
    if (at_ == text_.size()) {
      refuse(fmt::format("the quote that begins at {} has no end", shorten(as_utf8(text_.substr(begin, 24)), 24)), where_,
             "end it, or leave it out");
    }
    ++at_;
  }

  void put(char c) {
    word_ += c;
    in_word_ = true;
  }

  void end_word() {
    if (in_word_) words_.push_back({std::move(word_), false});
    word_.clear();
    in_word_ = false;
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0;
  std::string word_;
  bool in_word_ = false;
  std::vector<ShellWord> words_;
};

}  // namespace

std::vector<ShellWord> shell_words(std::string_view text, const std::string& where) {
  if (static_cast<std::int64_t>(text.size()) > kMostBytes) {
    refuse(fmt::format("a command of more than {}", human_bytes(kMostBytes)), where, "give the command alone");
  }
  if (text.find('\0') != std::string_view::npos || !is_valid_utf8(text))
    refuse("bytes that are no text (UTF-8)", where, "give the command as it is typed");
  return Splitter(text, where).words();
}

}  // namespace moesh::foreign
