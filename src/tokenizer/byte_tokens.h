// The tokens "<0x00>" to "<0xFF>", which stand for the bytes of characters that a vocabulary does not have.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace moesh::tokenizer {

// Indexed by byte; kNone if there is no such token.
std::vector<std::int32_t> byte_tokens(const Vocabulary& vocabulary);

// The byte that such a token stands for; nothing for another token.
std::optional<unsigned char> byte_of_token(std::string_view token);

}  // namespace moesh::tokenizer
