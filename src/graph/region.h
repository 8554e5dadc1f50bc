// Regions: bodies on the shapes of one device, with their collectives spelled out.
//
// A value of a body differs between devices along some mesh axes and is the same along the others; Spec::own lists the axes along which it
// differs. A cotangent that differs along further axes is a partial sum over those: the contributions of the devices to the gradient of a
// value that they share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "mesh/mesh.h"

namespace moesh::graph {

struct RegionOperand {
  Tensor tensor;
  sharding::Spec spec;  // the required layout
};

struct RegionResult {
  Tensor local;
  Shape shape;          // the shape of the whole result
  sharding::Spec spec;  // its layout, partial sums included
};

using RegionBody = std::function<std::vector<RegionResult>(Builder&, const std::vector<Tensor>&)>;

struct RegionKind {
  sharding::Dispatch strategy = sharding::Dispatch::local;
  bool overlaps = false;  // see RegionOf
};

// `build` is given the shards of the operands and returns the shards of the results.
std::vector<Tensor> region(Builder& builder, const std::string& name, const RegionKind& kind,
                           const std::vector<RegionOperand>& operands, const mesh::Mesh& mesh, const RegionBody& build);

// The axes along which the results of a node in a region's body differ between devices.
sharding::AxisList own_axes_of(const Graph& body, const Node& node);

GroupOf group_of(const sharding::AxisList& axes, const mesh::Mesh& mesh);

Tensor device_index(Builder& builder, const GroupOf& group);
Tensor gather(Tensor x, const GroupOf& group);
Tensor all_sum(Tensor x, const mesh::Mesh& mesh, const sharding::AxisList& axes);
Tensor own_once(Tensor x, const GroupOf& group);

// The slots of the experts here, sorted by expert.
struct SortedSlots {
  Tensor order_R, sizes_E, dropped;
};
// `index`: of this device among those that the experts are sharded over; absent if all experts are here.
SortedSlots sort_slots(Tensor ids_TK, Tensor index, std::int64_t experts_here, std::int64_t limit);

Tensor fetch_rows(Tensor x, const SortedSlots& slots, const GroupOf& group);
// `weights_R` may be absent; `tokens`: how many this device has.
Tensor return_rows(Tensor rows, const SortedSlots& slots, Tensor weights_R, std::int64_t tokens, const GroupOf& group);

// The tokens that have rows here, see Op::list_tokens. `tokens`: how many the whole group has.
struct ListedTokens {
  Tensor tokens_P, ends_P, rows_R, count;
};
ListedTokens list_tokens(Tensor order_R, Tensor sizes_E, GroupOf group, std::int64_t tokens);
// `weights_R` may be absent.
Tensor sum_rows(Tensor rows, const ListedTokens& listed, Tensor weights_R);
// `tokens`: how many this device has.
Tensor scatter_rows(Tensor sums, const ListedTokens& listed, std::int64_t tokens, const GroupOf& group);

struct Exchange {
  Tensor counts, kept, sizes_E, dropped;
  GroupOf group;
  std::int64_t sent = 0;      // rows before the exchange
  std::int64_t received = 0;  // room for rows after it
};
// `counts`: [devices of the group, all experts of the group].
Exchange plan_exchange(Tensor counts, Tensor index, std::int64_t experts_here, const GroupOf& group, std::int64_t sent,
                       std::int64_t received, std::int64_t limit);
Tensor exchange_rows(Tensor rows, const Exchange& exchange);
Tensor exchange_back(Tensor rows, const Exchange& exchange);

}  // namespace moesh::graph
