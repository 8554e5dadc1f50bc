#include "data/vocabulary.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"

namespace moesh::data {

std::optional<std::size_t> first_foreign(std::span<const std::int32_t> ids, std::int64_t vocab_size) {
  const auto found = std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) { return id < 0 || id >= vocab_size; });
  if (found == ids.end()) return std::nullopt;
  return static_cast<std::size_t>(found - ids.begin());
}

void refuse_foreign(const std::string& what, std::int64_t vocab_size, const std::string& where,
                    const std::string& more) {
  refuse(fmt::format("{}, but vocab_size={}", what, vocab_size), where,
         "a larger vocab_size, or the data that belongs to this model" + more);
}

}  // namespace moesh::data
