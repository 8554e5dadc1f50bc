// Requests of other programs, before a command that takes them.
#pragma once

#include <string>

#include "cli/command.h"

namespace moesh::cli {

// The arguments with what --from and --hf come to before the request, after telling that command of moesh and what it leaves out: on
// the output, or beside JSON as notices.
Arguments with_foreign_request(const Command& command, Arguments arguments);

// Whether a command of another program is not in quotes, by its first word; then its flags are taken for options.
bool is_unquoted(const std::string& text);
[[noreturn]] void refuse_unquoted();

}  // namespace moesh::cli
