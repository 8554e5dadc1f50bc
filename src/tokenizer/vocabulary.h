// The tokens of a model and their ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_reader.h"
#include "tokenizer/string_table.h"

namespace moesh::tokenizer {

inline constexpr std::int64_t kMostTokens = 1 << 24;

class Vocabulary {
 public:
  // Refuses an id that another token has, or that is negative or too large.
  void add(const std::string& token, std::int64_t id, const std::string& where);

  std::int32_t id(std::string_view token) const { return ids_.find(token); }  // kNone: no such token
  bool has(std::int64_t id) const { return id >= 0 && id < end() && is_there_[static_cast<std::size_t>(id)]; }
  const std::string& token(std::int32_t id) const { return tokens_[static_cast<std::size_t>(id)]; }
  std::int64_t end() const { return static_cast<std::int64_t>(tokens_.size()); }  // one more than the largest id
  std::int64_t count() const { return count_; }

 private:
  StringTable ids_;
  std::vector<std::string> tokens_;
  std::vector<bool> is_there_;
  std::int64_t count_ = 0;
};

// The id of the unknown token, asked for when it is needed: refused if it is `kNone`.
std::int32_t needed_unknown(std::int32_t unknown, const std::string& name);

// The "vocab" of a model: an object of tokens and their ids.
Vocabulary read_vocabulary(const Json& model, const std::string& where);

}  // namespace moesh::tokenizer
