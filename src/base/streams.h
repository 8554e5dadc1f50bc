// The three standard streams, which the caller of the program may have closed, filled or broken.
#pragma once

#include <string_view>

namespace moesh {

// Opens something harmless in place of each stream that is closed, so that no file opened later gets its number and with it what is
// printed. Returns whether standard output was open. To be called once, before anything is opened.
bool occupy_streams();

// Discards everything that is printed after this call.
void silence_output();

// Writes out everything printed so far. Throws std::system_error if that fails.
void flush_output();

// Prints to standard error. Text that cannot be written there is lost, as there is nowhere left to report it.
void say(std::string_view text);

}  // namespace moesh
