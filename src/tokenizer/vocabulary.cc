#include "tokenizer/vocabulary.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::tokenizer {

void Vocabulary::add(const std::string& token, std::int64_t id, const std::string& where) {
  if (id < 0 || id >= kMostTokens)
    refuse(fmt::format("token '{}' has id {}, ids from 0 to {} are taken", shorten(token, 60), id, kMostTokens - 1),
           where);
  if (has(id))
    refuse(fmt::format("tokens '{}' and '{}' have the same id {}",
                       shorten(this->token(static_cast<std::int32_t>(id)), 60), shorten(token, 60), id),
           where);
  if (id >= end()) {
    tokens_.resize(static_cast<std::size_t>(id) + 1);
    is_there_.resize(static_cast<std::size_t>(id) + 1);
  }
  tokens_[static_cast<std::size_t>(id)] = token;
  is_there_[static_cast<std::size_t>(id)] = true;
  ids_.set(token, static_cast<std::int32_t>(id));
  ++count_;
}

std::int32_t needed_unknown(std::int32_t unknown, const std::string& name) {
  if (unknown == kNone)
    refuse(
        fmt::format("a part of the text is in no token, and the token for that, '{}', is not in the vocabulary either",
                    shorten(name, 60)),
        "the text", "a tokenizer that knows all bytes, or has a token for what is unknown");
  return unknown;
}

Vocabulary read_vocabulary(const Json& model, const std::string& where) {
  const Json& tokens = child(model, "vocab", where);
  if (!tokens.is_object() || tokens.empty()) refuse("'vocab' is no object of tokens and their ids", where);
  Vocabulary made;
  for (const auto& [token, id] : tokens.items()) {
    if (!holds<std::int64_t>(id))
      refuse(fmt::format("token '{}' has {} as its id", shorten(token, 60), shortened(id, 60)), where);
    made.add(token, id.get<std::int64_t>(), where);
  }
  return made;
}

}  // namespace moesh::tokenizer
