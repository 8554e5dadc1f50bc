// The segments of tokens: the documents of a row of a batch, or the texts that a row of decoding goes through, one after the other.
#pragma once

#include <cstdint>
#include <limits>

namespace moesh::graph {

// In a batch padding has segment 0. Among new tokens of decoding it has one above those of all texts, because 0 is that of slots which were
// never written, and padding would attend to these.
inline constexpr std::int32_t kSegmentOfNewPadding = std::numeric_limits<std::int32_t>::max();

constexpr bool is_padding(std::int32_t segment) { return segment == 0 || segment == kSegmentOfNewPadding; }

}  // namespace moesh::graph
