#include "tokenizer/decoder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "tokenizer/byte_characters.h"
#include "tokenizer/byte_tokens.h"
#include "tokenizer/fields.h"
#include "tokenizer/unicode.h"

namespace moesh::tokenizer {
namespace {

using Tokens = std::vector<std::string>;

constexpr const char* kKnownDecoders =
    "ByteLevel, ByteFallback, Metaspace, WordPiece, BPEDecoder, Fuse, Replace, Strip, Sequence";

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  std::size_t done = 0;
  std::string made;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, done)) {
    made.append(text, done, at - done) += by;
    done = at + what.size();
  }
  if (done > 0) text = made.append(text, done);
}

void clean_up(std::string& text) {
  constexpr std::array<std::pair<const char*, const char*>, 11> kChanges{{{" .", "."},
                                                                          {" ?", "?"},
                                                                          {" !", "!"},
                                                                          {" ,", ","},
                                                                          {" ' ", "'"},
                                                                          {" n't", "n't"},
                                                                          {" 'm", "'m"},
                                                                          {" do not", " don't"},
                                                                          {" 's", "'s"},
                                                                          {" 've", "'ve"},
                                                                          {" 're", "'re"}}};
  for (const auto& [what, by] : kChanges) replace_all(text, what, by);
}

Tokens decoded_by(const JoinCharacters&, const Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += bytes_of_characters(token).value_or(token);
  return {repaired(bytes)};
}

// Bytes that are not valid text become one U+FFFD each.
void add_bytes(std::string& bytes, Tokens& to) {
  if (is_valid_utf8(bytes) && !bytes.empty())
    to.push_back(bytes);
  else
    to.insert(to.end(), bytes.size(), std::string(kReplacement));
  bytes.clear();
}

Tokens decoded_by(const JoinBytes&, Tokens tokens) {
  Tokens made;
  std::string bytes;
  for (std::string& token : tokens) {
    if (const auto byte = byte_of_token(token)) {
      bytes += static_cast<char>(*byte);
      continue;
    }
    add_bytes(bytes, made);
    made.push_back(std::move(token));
  }
  add_bytes(bytes, made);
  return made;
}

Tokens decoded_by(const UnmarkSpaces& step, Tokens tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    replace_all(tokens[i], step.mark, i == 0 && step.drops_first ? "" : " ");
  return tokens;
}

Tokens decoded_by(const JoinPieces& step, Tokens tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && tokens[i].starts_with(step.prefix))
      tokens[i].erase(0, step.prefix.size());
    else if (i > 0)
      tokens[i].insert(0, " ");
    if (step.cleans_up) clean_up(tokens[i]);
  }
  return tokens;
}

Tokens decoded_by(const JoinWords& step, Tokens tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], step.suffix, i + 1 < tokens.size() ? " " : "");
  return tokens;
}

Tokens decoded_by(const Fuse&, const Tokens& tokens) { return {join(tokens, "")}; }

Tokens decoded_by(const ReplaceIn& step, Tokens tokens) {
  Finder finder(step.pattern);
  for (std::string& token : tokens) {
    std::string made;
    for (const auto& [part, is_match] : finder.find(token))
      made += is_match ? step.content : token.substr(part.begin, part.end - part.begin);
    token = std::move(made);
  }
  return tokens;
}

Tokens decoded_by(const StripFrom& step, Tokens tokens) {
  for (std::string& token : tokens) {
    for (std::size_t i = 0; i < step.front && token.starts_with(step.character); ++i)
      token.erase(0, step.character.size());
    for (std::size_t i = 0; i < step.back && token.ends_with(step.character); ++i)
      token.resize(token.size() - step.character.size());
  }
  return tokens;
}

std::string not_empty(const Json& json, const char* key, const std::string& where) {
  auto text = member<std::string>(json, key, where);
  if (text.empty()) refuse(fmt::format("'{}' is empty", key), where);
  return text;
}

}  // namespace

Decoder::Decoder(const Json& json, const std::string& where) : joins_with_spaces_(false) { add(json, where); }

void Decoder::add(const Json& json, const std::string& where) {
  const std::string type = type_of(json, where);
  if (type == "Sequence") {
    for (const Json& one : list(json, "decoders", where)) add(one, where);
  } else if (type == "ByteLevel") {
    steps_.emplace_back(JoinCharacters{});
  } else if (type == "ByteFallback") {
    steps_.emplace_back(JoinBytes{});
  } else if (type == "Metaspace") {
    steps_.emplace_back(UnmarkSpaces{not_empty(json, "replacement", where), read_scheme(json, where) != Scheme::never});
  } else if (type == "WordPiece") {
    steps_.emplace_back(JoinPieces{member<std::string>(json, "prefix", where), member<bool>(json, "cleanup", where)});
  } else if (type == "BPEDecoder") {
    steps_.emplace_back(JoinWords{not_empty(json, "suffix", where)});
  } else if (type == "Fuse") {
    steps_.emplace_back(Fuse{});
  } else if (type == "Replace") {
    steps_.emplace_back(
        ReplaceIn{read_pattern(child(json, "pattern", where), where), member<std::string>(json, "content", where)});
  } else if (type == "Strip") {
    steps_.emplace_back(StripFrom{not_empty(json, "content", where), member<std::size_t>(json, "start", where),
                                  member<std::size_t>(json, "stop", where)});
  } else {
    refuse_type("a decoder", type, kKnownDecoders, where);
  }
}

std::string Decoder::run(std::vector<std::string> tokens) const {
  for (const DecoderStep& step : steps_) {
    tokens = std::visit([&](const auto& one) { return decoded_by(one, std::move(tokens)); }, step);
  }
  return join(tokens, joins_with_spaces_ ? " " : "");
}

}  // namespace moesh::tokenizer
