#include "base/log.h"

#include <fmt/core.h>

#include "base/streams.h"

namespace moesh {

void log_notice(std::string_view text) { say(fmt::format("moesh: note: {}\n", text)); }
void log_warning(std::string_view text) { say(fmt::format("moesh: warning: {}\n", text)); }
void log_error(std::string_view text) { say(fmt::format("moesh: error: {}\n", text)); }

}  // namespace moesh
