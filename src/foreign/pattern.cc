#include "foreign/pattern.h"

#include "base/text.h"

namespace moesh::foreign {
namespace {

using List = std::vector<int>;

// A parser for the grammar: sum = factor {"+" factor}; factor = ("[" ... "]" | "(" sum ")") {"*" number}.
class Reader {
 public:
  Reader(std::string_view text, std::size_t most) : text_(text), most_(most) {}

  std::optional<List> whole() {
    std::optional<List> list = sum(0);
    return list && at_ == text_.size() ? list : std::nullopt;
  }

 private:
  static constexpr int kDeepest = 32;

  bool takes(char c) {
    skip_blanks();
    const bool is_there = at_ < text_.size() && text_[at_] == c;
    at_ += is_there ? 1 : 0;
    skip_blanks();
    return is_there;
  }

  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  std::optional<std::int64_t> number() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return parse_integer(text_.substr(begin, at_ - begin));
  }

  std::optional<List> sum(int depth) {
    if (depth > kDeepest) return std::nullopt;
    List all;
    do {
      const std::optional<List> part = factor(depth);
      if (!part || all.size() + part->size() > most_) return std::nullopt;
      all.insert(all.end(), part->begin(), part->end());
    } while (takes('+'));
    return all;
  }

  std::optional<List> factor(int depth) {
    std::optional<List> list;
    if (takes('(')) {
      list = sum(depth + 1);
      if (!takes(')')) return std::nullopt;
    } else if (takes('[')) {
      list = elements();
    }
    while (list && takes('*')) list = repeated(*list, number());
    return list;
  }

  std::optional<List> elements() {
    List list;
    do {
      const std::optional<std::int64_t> element = number();
      if (!element || *element > 1 || list.size() == most_) return std::nullopt;
      list.push_back(static_cast<int>(*element));
    } while (takes(','));
    return takes(']') ? std::optional(list) : std::nullopt;
  }

  std::optional<List> repeated(const List& list, std::optional<std::int64_t> times) const {
    if (!times || list.empty() || static_cast<std::size_t>(*times) > most_ / list.size()) return std::nullopt;
    List all;
    for (std::int64_t i = 0; i < *times; ++i) all.insert(all.end(), list.begin(), list.end());
    return all;
  }

  std::string_view text_;
  std::size_t most_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::vector<int>> parse_pattern(std::string_view text, std::size_t most) { return Reader(text, most).whole(); }

}  // namespace moesh::foreign
