// What a stream of this process is shown on: a terminal or not, how wide, whether it redraws and colours.
#pragma once

#include <string>
#include <string_view>

namespace moesh {

enum class Stream { out, error };

bool is_terminal(Stream stream);

// Columns of the terminal that the stream is shown on, by COLUMNS where that is set; 0 when it is none (a pipe or a file).
int columns_of(Stream stream);

// Columns that tables on the output may take: as above, but COLUMNS also stands for a pipe or a file. 0: as wide as it gets.
int terminal_width();

// Whether a line can be drawn over: on a terminal that is not TERM=dumb.
bool can_redraw(Stream stream);

// What takes the line under the cursor away; empty where nothing can be drawn over.
std::string_view erase_line(Stream stream);

enum class Colour { red, yellow, green, blue };

// The text in a colour where the stream is a terminal and NO_COLOR is unset; otherwise the text as it is.
std::string painted(std::string_view text, Colour colour, Stream stream);

}  // namespace moesh
