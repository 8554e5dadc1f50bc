// Strategies to bring tokens to the experts of other devices and results back. Each is a function from the tokens of a device to the rows
// for its experts; a new one is a function here and an enumerator of sharding::Dispatch.
// Shape suffixes: T tokens here, K choices a token, M embedding, R rows sorted by expert, E experts here.
#pragma once

#include <functional>

#include "graph/region.h"
#include "nn/context.h"

namespace moesh::nn {

// Which devices have which experts and tokens.
struct Placement {
  graph::GroupOf experts;        // the devices that the experts are sharded over
  graph::GroupOf tokens;         // those of them that have different tokens
  std::int64_t experts_here = 1;
  const config::MoeShape& moe;
};

struct Dispatched {
  Tensor sizes_E;
  Tensor dropped;                               // choices that found no room, as counted by this device
  std::function<Tensor(Tensor x_TM)> fetch;     // any columns of the tokens -> rows_RM
  std::function<Tensor(Tensor rows_RM)> combine;  // weighted, unless fetch did so, and summed -> [T, M]
};

// Tokens are all-gathered, each device keeps the rows for its experts, and the weighted results go back as sums by a reduce-scatter. If
// devices have the same tokens, each keeps the rows for its experts, and the result is a partial sum over these devices.
Dispatched ring(Builder& builder, const Placement& place, Tensor ids_TK, Tensor weights_TK);

// Rows are sorted by expert, each goes to the device of its expert by an all-to-all, and its result comes back to be weighted and summed.
Dispatched all_to_all(Builder& builder, const Placement& place, Tensor ids_TK, Tensor weights_TK);

sharding::Dispatch strategy_of(const Placement& place);
Dispatched dispatch(Builder& builder, const Placement& place, Tensor ids_TK, Tensor weights_TK);

}  // namespace moesh::nn
