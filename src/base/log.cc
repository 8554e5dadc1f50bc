#include "base/log.h"

#include <fmt/core.h>

#include "base/streams.h"
#include "base/terminal.h"

namespace moesh {
namespace {

// Erases the line first, as a progress display may be on it.
void tell(std::string_view kind, Colour colour, std::string_view text) {
  say(fmt::format("{}moesh: {}: {}\n", erase_line(Stream::error), painted(kind, colour, Stream::error), text));
}

bool tells_notices = true;

}  // namespace

void hear_notices(bool hears) { tells_notices = hears; }

void log_notice(std::string_view text) {
  if (tells_notices) tell("note", Colour::blue, text);
}
void log_warning(std::string_view text) {
  if (tells_notices) tell("warning", Colour::yellow, text);
}
void log_error(std::string_view text) { tell("error", Colour::red, text); }

}  // namespace moesh
