// Tokenizers that were recorded with what they make of texts, which `moesh verify` holds this engine to.
#pragma once

#include <string>
#include <vector>

#include "train/verify.h"

namespace moesh::cli {

// A folder with a tokenizer and an expect.json that has "cases".
bool is_recorded_tokenizer(const std::string& path);

// How many cases differ in their ids and in the text of these, with special tokens and without; none may.
std::vector<train::Verdict> verify_tokenizer(const std::string& path);

}  // namespace moesh::cli
