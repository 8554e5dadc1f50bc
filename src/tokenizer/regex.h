// Compiled regular expressions over UTF-8 text.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/traced_text.h"

namespace moesh::tokenizer {

// May be used by several threads at once.
class Regex {
 public:
  // `pattern` is in PCRE2's syntax; one that cannot be compiled is refused with `where`.
  Regex(const std::string& pattern, const std::string& where);

  // Finds the matches in one text after another. Each matcher has its own memory for matching.
  class Matcher {
   public:
    explicit Matcher(const Regex& regex);
    // `text`: valid UTF-8. Nothing before or after it is visible to the expression.
    void begin(std::string_view text);
    // The next match from the front. Matches do not overlap, and an empty one never begins where the one before it ends.
    std::optional<Bytes> next();

   private:
    int search();
    int search_with_stack();

    const Regex& regex_;
    std::shared_ptr<void> data_, context_, stack_;
    std::string_view text_;
    std::size_t at_ = 0;
    std::optional<std::size_t> last_end_;
  };

 private:
  std::string where_;
  std::shared_ptr<void> code_;
};

}  // namespace moesh::tokenizer
