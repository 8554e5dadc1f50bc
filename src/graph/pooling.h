// Keys that are made of several tokens each.
#pragma once

#include <cstdint>

namespace moesh::graph {

// Windows of so many tokens, one after the other; tokens at the end that make no whole window are left out. A window has its first token's
// position, that of its last token as if they were consecutive, and its tokens' segment, or kNoSegment if they have several.
struct WindowsOf {
  std::int64_t tokens = 1;
};

// The windows of decoding. Windows of a row begin at position 0. A pool is made anew of each window that new tokens are in, as long as it
// is not yet whole too, when no query sees it.
struct NewWindowsOf {
  std::int64_t tokens = 1;
  std::int64_t count = 0;  // of the windows that a row has room for; a window behind them has no slot
};

// What was made of each token of a window is taken from the new tokens, or from where earlier ones are kept: slots that wrap. `before` so
// many windows stand in front of the first one that a new token is in. What is not there, as before the first window, is zeros.
struct WindowRowsOf {
  std::int64_t before = 0;
};

inline constexpr std::int32_t kNoSlot = -1;  // of rows that are not written to a cache
inline constexpr std::int32_t kNoSegment = -1;  // which no token has

}  // namespace moesh::graph
