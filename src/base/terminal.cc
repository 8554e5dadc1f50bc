#include "base/terminal.h"

#include <algorithm>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/core.h>

#include "base/text.h"

namespace moesh {
namespace {

constexpr int kNarrowest = 40;  // the least width that tables are made for, and the least COLUMNS that is believed
constexpr int kWidest = 1000;

int descriptor_of(Stream stream) { return stream == Stream::out ? STDOUT_FILENO : STDERR_FILENO; }

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

// COLUMNS, or 0 if it is unset or nonsense.
int asked_columns() {
  const auto value = parse_integer(variable("COLUMNS"));
  return value && *value >= kNarrowest && *value <= kWidest ? static_cast<int>(*value) : 0;
}

bool has_colour(Stream stream) { return can_redraw(stream) && variable("NO_COLOR").empty(); }

int code_of(Colour colour) {
  switch (colour) {
    case Colour::red: return 31;
    case Colour::yellow: return 33;
    case Colour::green: return 32;
    case Colour::blue: return 34;
  }
  return 0;
}

}  // namespace

bool is_terminal(Stream stream) { return isatty(descriptor_of(stream)) != 0; }

int columns_of(Stream stream) {
  if (!is_terminal(stream)) return 0;
  if (const int asked = asked_columns()) return asked;
  winsize size{};
  return ioctl(descriptor_of(stream), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int terminal_width() {
  const int asked = asked_columns();
  if (asked != 0) return asked;
  const int columns = columns_of(Stream::out);
  return columns == 0 ? 0 : std::max(columns, kNarrowest);
}

bool can_redraw(Stream stream) {
  const std::string_view kind = variable("TERM");
  return is_terminal(stream) && !kind.empty() && kind != "dumb";
}

std::string_view erase_line(Stream stream) { return can_redraw(stream) ? "\r\033[K" : ""; }

std::string painted(std::string_view text, Colour colour, Stream stream) {
  return has_colour(stream) ? fmt::format("\033[{}m{}\033[0m", code_of(colour), text) : std::string(text);
}

}  // namespace moesh
