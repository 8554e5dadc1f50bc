// Texts as their bytes: one token per byte, and no other tokens.
#pragma once

#include <memory>

#include "tokenizer/tokenizer.h"

namespace moesh::tokenizer {

std::unique_ptr<Tokenizer> bytes();

}  // namespace moesh::tokenizer
