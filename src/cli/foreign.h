// Requests of other programs, before a command that takes them.
#pragma once

#include "cli/command.h"

namespace moesh::cli {

// The arguments with what --from and --hf come to before the request, after telling that command of moesh and what it leaves out: on
// the output, or beside JSON as notices.
Arguments with_foreign_request(const Command& command, Arguments arguments);

// For a command of another program that is not in quotes, so that its flags are taken for options.
[[noreturn]] void refuse_unquoted();

}  // namespace moesh::cli
