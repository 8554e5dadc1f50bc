// Keys that are made of several tokens each.
#pragma once

#include <cstdint>

namespace moesh::graph {

// Windows of so many tokens, one after the other; tokens at the end that make no whole window are left out. A window has its first token's
// position, that of its last token as if they were consecutive, and its tokens' segment, or kNoSegment if they have several.
struct WindowsOf {
  std::int64_t tokens = 1;
};

inline constexpr std::int32_t kNoSegment = -1;  // which no token has

}  // namespace moesh::graph
