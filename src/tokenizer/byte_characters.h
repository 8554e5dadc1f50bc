// Bytes as printable characters, in which the tokens of byte-level models are written.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/traced_text.h"
#include "tokenizer/unicode.h"

namespace moesh::tokenizer {

void write_as_characters(const TracedText& text, Bytes part, Revision& revision);

// The bytes that a token's characters stand for; nothing if one of them does not stand for a byte.
std::optional<std::string> bytes_of_characters(std::string_view token);

}  // namespace moesh::tokenizer
