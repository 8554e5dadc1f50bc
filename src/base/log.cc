#include "base/log.h"

#include <cstdio>

#include <fmt/core.h>

namespace moesh {

void log_notice(std::string_view text) { fmt::print(stderr, "moesh: note: {}\n", text); }
void log_warning(std::string_view text) { fmt::print(stderr, "moesh: warning: {}\n", text); }

}  // namespace moesh
