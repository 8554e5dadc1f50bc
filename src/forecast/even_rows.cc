#include "forecast/even_rows.h"

#include <algorithm>
#include <limits>

namespace moesh::forecast {
namespace {

using graph::Op;
using plan::Instruction;

constexpr double kUnknown = std::numeric_limits<double>::infinity();

double count(const Shape& shape) { return static_cast<double>(elements(shape)); }

double limited(double rows, const Instruction& instruction) {
  const auto limit = static_cast<double>(std::get<graph::SortSlotsOf>(instruction.attributes).limit);
  return limit > 0 ? std::min(rows, limit) : rows;
}

}  // namespace

EvenRows::EvenRows(const plan::Plan& plan)
    : plan_(plan), sums_(plan.buffers.size(), kUnknown), members_(plan.buffers.size(), 1) {
  for (const Instruction& instruction : plan.instructions) see(instruction);
}

void EvenRows::see(const Instruction& i) {
  const auto shape_of = [&](plan::ViewId id) -> const Shape& { return plan_.view(id).shape; };
  if (i.kind == Instruction::Kind::copy) sum(i.results[0]) = sum(i.operands[0]);
  switch (i.op) {
    case Op::device_index:
      members_[static_cast<std::size_t>(plan_.view(i.results[0]).buffer)] =
          std::get<graph::GroupOf>(i.attributes).members;
      break;
    case Op::sort_slots: {
      const std::int64_t sharing =
          i.operands.size() > 1 ? members_[static_cast<std::size_t>(plan_.view(i.operands[1]).buffer)] : 1;
      sum(i.results[1]) = limited(count(shape_of(i.operands[0])) / static_cast<double>(sharing), i);
      break;
    }
    case Op::gather:
      sum(i.results[0]) = sum(i.operands[0]) * static_cast<double>(std::get<graph::GroupOf>(i.attributes).members);
      break;
    case Op::plan_exchange:
      sum(i.results[1]) = limited(
          sum(i.operands[0]) * count(shape_of(i.results[1])) / static_cast<double>(shape_of(i.operands[0])[1]), i);
      break;
    case Op::list_tokens: {
      // Each of a token's choices has a row here with the same chance.
      const auto choices = static_cast<double>(std::get<graph::GroupOf>(i.attributes).choices);
      const double tokens = count(shape_of(i.results[0]));
      const double chance = std::min(1.0, sum(i.operands[1]) / (tokens * choices));
      sum(i.results[3]) = tokens * (1 - std::pow(1 - chance, choices));
      break;
    }
    default: break;
  }
}

Shape EvenRows::shape(const plan::View& view) const {
  Shape shape = view.shape;
  if (view.rows < 0) return shape;
  const double rows = sums_[static_cast<std::size_t>(plan_.view(view.rows).buffer)];
  shape[0] = static_cast<std::int64_t>(std::min(static_cast<double>(shape[0]), std::ceil(rows)));
  return shape;
}

}  // namespace moesh::forecast
