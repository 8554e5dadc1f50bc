#include "tokenizer/regex.h"

#include <algorithm>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <fmt/core.h>

#include "base/error.h"
#include "base/pcre.h"
#include "base/text.h"
#include "tokenizer/unicode.h"

namespace moesh::tokenizer {
namespace {

constexpr std::size_t kStackBytes = 64 << 10, kMostStackBytes = 64 << 20;
// Matching a tokenizer's text takes a few steps per byte; an expression that tries every way takes more than there is time for.
constexpr std::size_t kLeastSteps = 10'000'000, kStepsPerByte = 16;

pcre2_code* code_of(const std::shared_ptr<void>& held) { return static_cast<pcre2_code*>(held.get()); }
pcre2_match_data* data_of(const std::shared_ptr<void>& held) { return static_cast<pcre2_match_data*>(held.get()); }
pcre2_match_context* context_of(const std::shared_ptr<void>& held) {
  return static_cast<pcre2_match_context*>(held.get());
}

}  // namespace

Regex::Regex(const std::string& pattern, const std::string& where) : where_(where) {
  std::string why;
  code_ = compile_pattern(pattern, PCRE2_UCP | PCRE2_MULTILINE, why);
  if (code_ == nullptr) refuse(fmt::format("not a regular expression: '{}': {}", shorten(pattern, 120), why), where);
  pcre2_jit_compile(code_of(code_), PCRE2_JIT_COMPLETE);  // if this fails, the expression is interpreted
}

Regex::Matcher::Matcher(const Regex& regex)
    : regex_(regex),
      data_(pcre2_match_data_create_from_pattern(code_of(regex.code_), nullptr),
            [](void* held) { pcre2_match_data_free(static_cast<pcre2_match_data*>(held)); }),
      context_(pcre2_match_context_create(nullptr),
               [](void* held) { pcre2_match_context_free(static_cast<pcre2_match_context*>(held)); }) {}

void Regex::Matcher::begin(std::string_view text) {
  text_ = text;
  at_ = 0;
  last_end_.reset();
  const std::size_t steps = std::min<std::size_t>(kLeastSteps + kStepsPerByte * text.size(), 0xFFFFFFFF);
  pcre2_set_match_limit(context_of(context_), static_cast<std::uint32_t>(steps));
}

int Regex::Matcher::search() {
  return pcre2_match(code_of(regex_.code_), reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), at_, PCRE2_NO_UTF_CHECK,
                     data_of(data_), context_of(context_));
}

// Only few expressions need more stack than there is by default.
int Regex::Matcher::search_with_stack() {
  stack_ = std::shared_ptr<void>(pcre2_jit_stack_create(kStackBytes, kMostStackBytes, nullptr),
                                 [](void* held) { pcre2_jit_stack_free(static_cast<pcre2_jit_stack*>(held)); });
  pcre2_jit_stack_assign(context_of(context_), nullptr, stack_.get());
  return search();
}

std::optional<Bytes> Regex::Matcher::next() {
  while (at_ <= text_.size()) {
    int found = search();
    if (found == PCRE2_ERROR_JIT_STACKLIMIT && stack_ == nullptr) found = search_with_stack();
    if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
    if (found < 0)
      fail(fmt::format("a regular expression gave up on a text: {}", pcre_message(found)), regex_.where_, "shorter texts");
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data_of(data_));
    const bool is_behind_last = ends[0] == ends[1] && last_end_ == ends[1];
    if (!is_behind_last) {
      at_ = ends[1];
      last_end_ = ends[1];
      return Bytes{static_cast<std::uint32_t>(std::min(ends[0], ends[1])), static_cast<std::uint32_t>(ends[1])};
    }
    at_ += at_ < text_.size() ? code_point(text_, at_).bytes : 1;
  }
  return std::nullopt;
}

}  // namespace moesh::tokenizer
