// Compares this engine's tokenizer with recorded results of other tokenizers, for `moesh verify`.
#pragma once

#include <string>
#include <vector>

#include "train/verify.h"

namespace moesh::cli {

// Whether the path is a folder with a tokenizer and an expect.json, which holds the recorded "cases".
bool is_recorded_tokenizer(const std::string& path);

// For token ids and for decoded text, each with and without special tokens: how many cases differ from the record. None may.
std::vector<train::Verdict> verify_tokenizer(const std::string& path);

}  // namespace moesh::cli
