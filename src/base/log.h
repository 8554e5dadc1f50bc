// The only logger: lines for people on standard error, so that standard output holds results alone.
#pragma once

#include <string_view>

namespace moesh {

void log_notice(std::string_view text);   // worth knowing
void log_warning(std::string_view text);  // likely not what was meant
void hear_notices(bool hears);            // whether notices and warnings are shown at all
void log_error(std::string_view text);    // the reason why the command ends

}  // namespace moesh
