#include "run/traffic.h"

#include "run/group.h"

namespace moesh::run {
namespace {

using graph::Op;

double row_bytes(const Array& rows) {
  return rows.view.shape[0] == 0 ? 0 : static_cast<double>(rows.bytes() / rows.view.shape[0]);
}

// Tokens of other devices that have rows here.
double returned_tokens(const Array& order, std::int64_t rows, std::int64_t choices, std::int64_t tokens, std::int64_t member,
                       std::int64_t members) {
  std::vector<bool> seen(static_cast<std::size_t>(tokens * members), false);
  double count = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t token = order.as<std::int32_t>()[row] / choices;
    if (token / tokens == member || seen[static_cast<std::size_t>(token)]) continue;
    seen[static_cast<std::size_t>(token)] = true;
    ++count;
  }
  return count;
}

// Rows that a device sends to others: its own to their experts, or on the way back those that came from them.
double exchanged_rows(const Array& kept, std::int64_t member, std::int64_t members, bool back) {
  const std::int64_t experts = kept.view.size(1), here = experts / members;
  double rows = 0;
  for (std::int64_t from = 0; from < members; ++from) {
    for (std::int64_t e = 0; e < experts; ++e) {
      const std::int64_t to = e / here;
      if (from != to && (back ? to : from) == member) rows += kept.as<std::int32_t>()[from * experts + e];
    }
  }
  return rows;
}

}  // namespace

void add_traffic(const graph::Node& node, const std::vector<const Placed*>& operands, const Placed& result,
                 const mesh::Mesh& mesh, std::vector<double>& sent) {
  const auto* of = std::get_if<graph::GroupOf>(&node.attributes);
  if (of == nullptr || of->members == 1 || operands.empty()) return;
  sharding::AxisList every;
  for (std::size_t axis = 0; axis < mesh.axes().size(); ++axis) every.push_back(static_cast<sharding::AxisIndex>(axis));
  const ShardAxes devices(every, mesh);
  const Group group(of->axes, mesh);
  const auto others = static_cast<double>(of->members - 1);
  sent.resize(devices.count());
  for (std::size_t device = 0; device < devices.count(); ++device) {
    const Coordinates at = devices.coordinates(device);
    const auto own = [&](std::size_t i) -> const Array& { return operands[i]->shards[ShardAxes(operands[i]->spec, mesh).index(at)]; };
    const auto bytes = static_cast<double>(own(0).bytes());
    switch (node.op) {
      case Op::gather:
      case Op::fetch_rows: sent[device] += others * bytes; break;
      case Op::all_sum: sent[device] += 2 * others / static_cast<double>(of->members) * bytes; break;
      case Op::return_rows:
        sent[device] += row_bytes(own(0)) * returned_tokens(own(1), own(0).view.shape[0], of->choices, result.shape[0],
                                                            group.member(at), of->members);
        break;
      case Op::exchange_rows:
        sent[device] += row_bytes(own(0)) * exchanged_rows(own(2), group.member(at), of->members, of->back);
        break;
      default: break;
    }
  }
}

}  // namespace moesh::run
