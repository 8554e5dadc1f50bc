#include "tokenizer/byte_tokens.h"

#include <charconv>

#include <fmt/core.h>

namespace moesh::tokenizer {

std::vector<std::int32_t> byte_tokens(const Vocabulary& vocabulary) {
  std::vector<std::int32_t> all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(vocabulary.id(fmt::format("<0x{:02X}>", byte)));
  return all;
}

std::optional<unsigned char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  unsigned char byte = 0;
  const auto [stop, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  if (error != std::errc() || stop != token.data() + 5) return std::nullopt;
  return byte;
}

}  // namespace moesh::tokenizer
