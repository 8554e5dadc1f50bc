// `moesh bench decode` and `moesh bench prefill`.
#pragma once

#include "cli/command.h"
#include "session/session.h"

namespace moesh::cli {

using session::DecodeStage;

int bench_decode(const Arguments& arguments, DecodeStage stage);

}  // namespace moesh::cli
