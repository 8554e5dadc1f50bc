// Small tokenizers for tests, assembled from the parts of a tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_json.h"

namespace moesh::test {

using Part = std::pair<std::string, std::string>;

// A BPE tokenizer with the letters a to h, the blank, "ab" and "abc"; `parts` replaces parts of the file.
inline nlohmann::json tokenizer_json(const std::vector<Part>& parts = {}) {
  nlohmann::json json = nlohmann::json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "unk_token": "?", "merges": ["a b", ["ab", "c"]],
              "vocab": {"?": 0, "a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7, "h": 8, " ": 9, "ab": 10, "abc": 11}}})");
  for (const auto& [name, part] : parts) json[name] = nlohmann::json::parse(part);
  return json;
}

inline std::unique_ptr<tokenizer::Tokenizer> tokenizer_of(const std::vector<Part>& parts) {
  return tokenizer::read_tokenizer_json(tokenizer_json(parts), "t");
}

// The tokens of a text, spelled as in the tokenizer's file.
inline std::vector<std::string> tokens_of(const tokenizer::Tokenizer& tokenizer, std::string_view text,
                                          tokenizer::Special special = tokenizer::Special::left_out) {
  std::vector<std::string> tokens;
  for (const tokenizer::Piece& piece : tokenizer.pieces(text, special)) tokens.push_back(piece.token);
  return tokens;
}

}  // namespace moesh::test
