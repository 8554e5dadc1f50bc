// What all uses of PCRE2, the library for regular expressions, share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace moesh {

// A compiled pcre2_code; null if `pattern` cannot be compiled, and then `why` says what is wrong. `options`: PCRE2's. Texts are UTF-8.
std::shared_ptr<void> compile_pattern(const std::string& pattern, std::uint32_t options, std::string& why);

std::string pcre_message(int error);

}  // namespace moesh
