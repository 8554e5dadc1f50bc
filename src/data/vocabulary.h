// Token ids that the model's vocabulary does not have: finding and refusing them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace moesh::data {

// The index of the first one.
std::optional<std::size_t> first_foreign(std::span<const std::int32_t> ids, std::int64_t vocab_size);

// `what`: "token 300 at position 2"; `more`: what else may help.
[[noreturn]] void refuse_foreign(const std::string& what, std::int64_t vocab_size, const std::string& where,
                                 const std::string& more = "");

}  // namespace moesh::data
