// Gated linear attention: a memory of each row and head, a matrix [D, V] that maps keys to values. A token multiplies it by exp(decay),
// moves what it holds for the token's key towards the token's value, by the rate, and then reads it with its query. Each of the G heads of
// keys and queries has R heads of values. Padding changes nothing. Documents of a row share its memory, as in MaxText.
//
// In decoding, what is kept of earlier tokens is an operand and a result: the memory, [B, G, R, D, V] in the wide type, and the last W - 1
// inputs of a convolution, [B, W - 1, ...]. A token at place 0 begins a row anew, without either.
#pragma once

#include <cstdint>

namespace moesh::graph {

// Tokens whose changes of the memory are computed together.
inline constexpr std::int64_t kTokensOfDeltaChunk = 64;

}  // namespace moesh::graph
