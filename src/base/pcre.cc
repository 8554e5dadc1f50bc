#include "base/pcre.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <fmt/core.h>

namespace moesh {

std::shared_ptr<void> compile_pattern(const std::string& pattern, std::uint32_t options, std::string& why) {
  int error = 0;
  PCRE2_SIZE place = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   options | PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &error, &place, nullptr);
  if (code == nullptr) {
    why = fmt::format("{} at byte {}", pcre_message(error), place);
    return nullptr;
  }
  return std::shared_ptr<void>(code, [](void* held) { pcre2_code_free(static_cast<pcre2_code*>(held)); });
}

std::string pcre_message(int error) {
  unsigned char words[256];
  pcre2_get_error_message(error, words, sizeof(words));
  return reinterpret_cast<const char*>(words);
}

}  // namespace moesh
