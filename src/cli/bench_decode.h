// `moesh bench decode` and `moesh bench prefill`.
#pragma once

#include "cli/command.h"

namespace moesh::cli {

enum class DecodeStage { token, prompt };

int bench_decode(const Arguments& arguments, DecodeStage stage);

}  // namespace moesh::cli
