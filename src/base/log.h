// The one logger: lines for people, on the error stream, so that results alone stand on the output.
#pragma once

#include <string_view>

namespace moesh {

void log_notice(std::string_view text);   // worth knowing
void log_warning(std::string_view text);  // likely not what was meant
void hear_notices(bool hears);            // whether those two are told at all
void log_error(std::string_view text);    // what ends the command

}  // namespace moesh
