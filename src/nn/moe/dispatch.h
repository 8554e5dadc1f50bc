// Ways for tokens to reach the experts of other devices and for results to come back. Each is a function from the tokens that a
// device has to the rows for the experts that it has; a new one is a function here and a name in `dispatch`.
// Shape suffixes: T tokens here, K choices a token, M embedding, R rows sorted by expert, E experts here.
#pragma once

#include <functional>

#include "graph/region.h"
#include "nn/context.h"

namespace moesh::nn {

// Who has what.
struct Placement {
  graph::GroupOf experts;        // the devices among which the experts are shared out
  graph::GroupOf tokens;         // those of them that have different tokens
  std::int64_t experts_here = 1;
  const config::MoeShape& moe;
};

struct Dispatched {
  Tensor sizes_E;
  Tensor dropped;                               // choices that found no room, as this device counts them
  std::function<Tensor(Tensor x_TM)> fetch;     // any columns of the tokens -> rows_RM
  std::function<Tensor(Tensor rows_RM)> combine;  // weighted, where the tokens were not, and summed -> [T, M]
};

// Tokens are gathered, each device keeps the rows for its experts, and the weighted results are scattered back as sums. Where
// devices have the same tokens, each keeps its rows, and the result is a partial sum over them.
Dispatched ring(Builder& builder, const Placement& place, Tensor ids_TK, Tensor weights_TK);

// Rows are sorted by expert, each goes to the device of its expert, and comes back to be weighted and summed.
Dispatched all_to_all(Builder& builder, const Placement& place, Tensor ids_TK, Tensor weights_TK);

const char* strategy_name(const Placement& place);  // "ring", "all-to-all"; "local" where nothing travels
Dispatched dispatch(Builder& builder, const Placement& place, Tensor ids_TK, Tensor weights_TK);

}  // namespace moesh::nn
