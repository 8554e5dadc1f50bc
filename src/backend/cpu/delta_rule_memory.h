// What linear attention keeps in memory while it goes over a row.
// Shape suffixes: B rows, S length, C tokens of a chunk, G heads of keys, R heads of values for each, D a key's width, V a value's width.
#pragma once

#include <cstdint>

#include "backend/cpu/scratch.h"
#include "base/rounding.h"
#include "base/shape.h"
#include "graph/delta_rule.h"

namespace moesh::backend::cpu {

struct DeltaShape {
  static constexpr std::int64_t C = graph::kTokensOfDeltaChunk;
  std::int64_t B, S, G, R, D, V;

  DeltaShape(const Shape& query, const Shape& value)
      : B(value[0]), S(value[1]), G(value[2]), R(value[3]), D(query[3]), V(value[4]) {}
  std::int64_t chunks() const { return divide_up(S, C); }
  std::int64_t state() const { return D * V; }
};

// The memory of a thread. A gradient keeps what it needs of each chunk of a row; otherwise there is only the chunk at hand.
template <typename W>
struct DeltaRoom {
  // Of each chunk that is kept.
  W* states;            // [R][D][V]: the memory before it
  W* products;          // [2 C][C]: of queries and then of keys with keys
  W* values;            // [R][C][V]: what a token finds missing of its value
  W* changes;           // [R][C][V]
  // Of the chunk at hand.
  W* queries;           // [2 C][D]: queries, and right behind them keys
  W* ahead;             // [C][D]: keys as the memory behind the chunk sees them
  W *mixes, *reads;     // [C][C]: A and P
  W* read;              // [C][V]
  W *sums, *rates;      // [C]: c and b
  // Only for gradients.
  W *dqueries, *dkeys;  // [C][D]
  W* dproducts;         // [2 C][C]
  W *dmixes, *dreads;   // [C][C]
  W* dresults;          // [2 C][V]: of results, and right behind them of values
  W* dchanges;          // [C][V]
  W* scaled;            // [2 C][D]
  W* dsums;             // [C]
  W* dstates;           // [R][D][V]

  DeltaRoom(Pieces& pieces, const DeltaShape& n, bool backward) {
    const auto take = [&](std::int64_t count) { return pieces.take<W>(count); };
    const std::int64_t kept = backward ? n.chunks() : 1;
    states = take(kept * n.R * n.state());
    products = take(kept * 2 * n.C * n.C);
    for (W** const of_values : {&values, &changes}) *of_values = take(kept * n.R * n.C * n.V);
    queries = take(2 * n.C * n.D);
    ahead = take(n.C * n.D);
    for (W** const pairs : {&mixes, &reads}) *pairs = take(n.C * n.C);
    read = take(n.C * n.V);
    for (W** const of_tokens : {&sums, &rates}) *of_tokens = take(n.C);
    if (!backward) return;
    for (W** const of_keys : {&dqueries, &dkeys}) *of_keys = take(n.C * n.D);
    dproducts = take(2 * n.C * n.C);
    for (W** const pairs : {&dmixes, &dreads}) *pairs = take(n.C * n.C);
    dresults = take(2 * n.C * n.V);
    dchanges = take(n.C * n.V);
    scaled = take(2 * n.C * n.D);
    dsums = take(n.C);
    dstates = take(n.R * n.state());
  }
};

template <typename W>
std::int64_t bytes_of_room(const DeltaShape& n, bool backward) {
  Pieces pieces(nullptr);
  DeltaRoom<W>(pieces, n, backward);
  return pieces.bytes();
}

}  // namespace moesh::backend::cpu
