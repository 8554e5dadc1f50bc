// The three standard streams, which a caller may have closed, filled or broken.
#pragma once

#include <string_view>

namespace moesh {

// Puts something harmless in the place of those that are closed, so that no file that is opened later gets their
// numbers and with them what is printed. Returns whether standard output was open. Once, before anything is opened.
bool occupy_streams();

// What is printed from now on goes nowhere.
void silence_output();

// Writes out what was printed so far. Throws std::system_error where that cannot be done.
void flush_output();

// To standard error. What cannot be written there is lost: there is nobody left to tell.
void say(std::string_view text);

}  // namespace moesh
