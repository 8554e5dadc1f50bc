// Texts as their bytes: a token for each, and none besides.
#pragma once

#include <memory>

#include "tokenizer/tokenizer.h"

namespace moesh::tokenizer {

std::unique_ptr<Tokenizer> bytes();

}  // namespace moesh::tokenizer
