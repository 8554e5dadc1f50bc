#include "run/traffic.h"

#include <algorithm>

#include "graph/facts.h"
#include "run/group.h"

namespace moesh::run {
namespace {

using graph::Op;

double row_bytes(const Array& rows) {
  return rows.view.shape[0] == 0 ? 0 : static_cast<double>(rows.bytes() / rows.view.shape[0]);
}

// Of the listed tokens, those that other devices have.
double tokens_of_others(const Array& listed, std::int64_t count, std::int64_t tokens, std::int64_t member) {
  const auto* token = listed.as<std::int32_t>();
  return static_cast<double>(std::count_if(token, token + count, [&](std::int32_t t) { return t / tokens != member; }));
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

void add_traffic(const plan::Instruction& instruction, const std::vector<Placed>& operands, const Placed& result, const mesh::Mesh& mesh,
                 std::vector<double>& sent) {
  const auto* of = std::get_if<graph::GroupOf>(&instruction.attributes);
  if (of == nullptr || instruction.kind != plan::Instruction::Kind::collective) return;
  sharding::AxisList every;
  for (std::size_t axis = 0; axis < mesh.axes().size(); ++axis) every.push_back(static_cast<sharding::AxisIndex>(axis));
  const ShardAxes devices(every, mesh);
  const Group group(of->axes, mesh);
  const auto others = static_cast<double>(of->members - 1);
  sent.resize(devices.count());
  for (std::size_t device = 0; device < devices.count(); ++device) {
    const Coordinates at = devices.coordinates(device);
    const auto own = [&](std::size_t i) -> const Array& { return operands[i].shards[ShardAxes(operands[i].spec, mesh).index(at)]; };
    const auto bytes = static_cast<double>(own(0).bytes());
    switch (instruction.op) {
      case Op::gather: sent[device] += others * bytes; break;
      case Op::all_sum: sent[device] += 2 * others / static_cast<double>(of->members) * bytes; break;
      case Op::scatter_rows:
        sent[device] += (row_bytes(own(0)) + static_cast<double>(size_of(own(1).view.dtype))) *
                        tokens_of_others(own(1), *own(2).as<std::int32_t>(), result.shape[0], group.member(at));
        break;
      case Op::exchange_rows:
        sent[device] += row_bytes(own(0)) * exchanged_rows(own(2), group.member(at), of->members, of->back);
        break;
      default: break;
    }
  }
}

}  // namespace moesh::run
