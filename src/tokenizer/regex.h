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
  // `pattern` is PCRE2's; what it cannot compile is refused with `where`.
  Regex(const std::string& pattern, const std::string& where);

  // The matches in one text after the other: each has the memory that matching takes.
  class Matcher {
   public:
    explicit Matcher(const Regex& regex);
    // `text`: valid UTF-8, which stands alone: nothing is seen before or behind it.
    void begin(std::string_view text);
    // From the front, none overlapping. An empty one does not stand right behind the one before it.
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
