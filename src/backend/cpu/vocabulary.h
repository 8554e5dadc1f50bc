// What the embedding and the losses over a vocabulary share.
#pragma once

#include <cstdint>

#include "backend/kernel.h"

namespace moesh::backend::cpu {

// Names row and position, so that users find the token in their data.
[[noreturn]] void fail_token(const char* what, std::int32_t token, std::int64_t index, const View& tokens, std::int64_t vocabulary);

}  // namespace moesh::backend::cpu
