// Tokenizers as a tokenizer.json describes them: normalizer, pre_tokenizer, model, post_processor, decoder, added
// tokens.
#pragma once

#include <memory>
#include <string>

#include "base/json_reader.h"
#include "tokenizer/tokenizer.h"

namespace moesh::tokenizer {

// `json`: the contents of the file. What it asks for that is not supported is refused by its name.
std::unique_ptr<Tokenizer> read_tokenizer_json(const Json& json, const std::string& path);

// Whether JSON looks like such a file.
bool is_tokenizer_json(const Json& json);

}  // namespace moesh::tokenizer
