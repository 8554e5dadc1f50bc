// Turns the request of another program (--from, --hf) into keys of the command that was given it.
#pragma once

#include <string>

#include "cli/command.h"

namespace moesh::cli {

// The arguments with the keys that --from and --hf translate to put before the request. Also prints the equivalent moesh command and
// notes on the translation: on standard output, or on standard error if the command prints JSON.
Arguments with_foreign_request(const Command& command, Arguments arguments);

// Whether the text given to --from is a bare flag, so that the other program's command was not quoted and its flags look like options.
bool is_unquoted(const std::string& text);
[[noreturn]] void refuse_unquoted();

}  // namespace moesh::cli
