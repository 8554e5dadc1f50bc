// Tokens "<0x00>" to "<0xFF>", which stand for the bytes of characters that a vocabulary lacks.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace moesh::tokenizer {

// By byte; kNone where there is none.
std::vector<std::int32_t> byte_tokens(const Vocabulary& vocabulary);

// The byte that such a token stands for; nothing of another token.
std::optional<unsigned char> byte_of_token(std::string_view token);

}  // namespace moesh::tokenizer
