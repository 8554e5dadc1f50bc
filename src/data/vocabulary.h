// Token ids that the vocabulary of the model lacks: which are, and how they are refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace moesh::data {

// The place of the first.
std::optional<std::size_t> first_foreign(std::span<const std::int32_t> ids, std::int64_t vocab_size);

// `what`: "token 300 at position 2"; `more`: what else may mend it.
[[noreturn]] void refuse_foreign(const std::string& what, std::int64_t vocab_size, const std::string& where,
                                 const std::string& more = "");

}  // namespace moesh::data
