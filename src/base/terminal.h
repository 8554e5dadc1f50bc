// What a stream of this process is shown on: whether it is a terminal, how wide it is, and whether it can redraw and colour.
#pragma once

#include <string>
#include <string_view>

namespace moesh {

enum class Stream { out, error };

bool is_terminal(Stream stream);

// The columns of the stream's terminal, or COLUMNS if that is set; 0 if it is not a terminal (a pipe or a file) or does not report its
// width, as the terminals that mpirun makes for its processes.
int columns_of(Stream stream);

// The columns that tables on standard output may take: as above, but COLUMNS also counts for a pipe or a file. 0: unlimited.
int terminal_width();

// Whether a line can be drawn over: true on a terminal unless TERM is unset or "dumb".
bool can_redraw(Stream stream);

// The control sequence that erases the line under the cursor; empty if lines cannot be drawn over.
std::string_view erase_line(Stream stream);

enum class Colour { red, yellow, green, blue };

// The text in a colour if the stream can redraw and NO_COLOR is unset; otherwise the text as it is.
std::string painted(std::string_view text, Colour colour, Stream stream);

}  // namespace moesh
