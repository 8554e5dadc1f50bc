#include "forecast/routed_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/chance.h"

namespace moesh::forecast {
namespace {

using graph::Op;
using plan::Instruction;

constexpr double kUnknown = std::numeric_limits<double>::infinity();

double count(const Shape& shape) { return static_cast<double>(elements(shape)); }

}  // namespace

std::optional<graph::DrawOf> law_of(const plan::Plan& plan) {
  const auto draws = [](const Instruction& i) {
    return i.kind == Instruction::Kind::kernel && i.op == Op::random_scores;
  };
  const auto found = std::find_if(plan.instructions.begin(), plan.instructions.end(), draws);
  if (found == plan.instructions.end()) return std::nullopt;
  return std::get<graph::DrawOf>(found->attributes);
}

RoutedRows::RoutedRows(const plan::Plan& plan, Router router)
    : plan_(plan),
      router_(router),
      law_(law_of(plan)),
      sums_(plan.buffers.size(), kUnknown),
      choices_of_all_(plan.buffers.size(), kUnknown),
      members_(plan.buffers.size(), 1) {
  for (const Instruction& instruction : plan.instructions) see(instruction);
}

Counted RoutedRows::counted(const Draw& draw, std::int64_t limit) const {
  const auto known = std::find_if(counted_.begin(), counted_.end(), [&](const Counted& c) { return c.draw == draw && c.limit == limit; });
  if (known != counted_.end()) return *known;
  const std::int64_t most = draw.most_rows();
  Counted made{draw, limit, most, limit > 0 && limit < most, {}};
  if (made.is_bounded) made.room = limit;
  if (router_ != Router::even) {
    made.load = load_of(draw, router_ == Router::drawn ? ExpertOrder::random : ExpertOrder::by_rank, made.room);
  } else if (static_cast<double>(made.room) < draw.mean_rows()) {
    made.load.overflows = 1;
    made.load.dropped = 1 - static_cast<double>(made.room) / draw.mean_rows();
  }
  return made;
}

// The number of rows that go to one device, given the rows of all devices that share the experts.
double RoutedRows::shared_out(double rows, std::int64_t experts, std::int64_t devices, const Instruction& instruction) {
  const auto limit = std::get<graph::SortSlotsOf>(instruction.attributes).limit;
  double here = rows / static_cast<double>(devices);
  if (devices > 1 && law_ && std::isfinite(rows)) {
    const std::int64_t own = sharding::shards(plan_.view(instruction.results[1]).spec.own, plan_.mesh);
    const auto tokens = static_cast<std::int64_t>(rows) / choices_;
    const Draw draw{tokens, choices_, experts, devices, std::max<std::int64_t>(1, own / devices), law_->skew};
    counted_.push_back(counted(draw, limit));
    here *= counted_.back().load.busiest;
  }
  return limit > 0 ? std::min(here, static_cast<double>(limit)) : here;
}

void RoutedRows::see(const Instruction& i) {
  const auto shape_of = [&](plan::ViewId id) -> const Shape& { return plan_.view(id).shape; };
  const auto choices_of_all = [&](plan::ViewId id) -> double& {
    return choices_of_all_[static_cast<std::size_t>(plan_.view(id).buffer)];
  };
  if (i.kind == Instruction::Kind::copy) {
    sum(i.results[0]) = sum(i.operands[0]);
    choices_of_all(i.results[0]) = choices_of_all(i.operands[0]);
  }
  switch (i.op) {
    case Op::top_k: choices_ = std::get<graph::TopKOf>(i.attributes).k; break;
    case Op::device_index:
      members_[static_cast<std::size_t>(plan_.view(i.results[0]).buffer)] =
          std::get<graph::GroupOf>(i.attributes).members;
      break;
    case Op::sort_slots: {
      const std::int64_t sharing =
          i.operands.size() > 1 ? members_[static_cast<std::size_t>(plan_.view(i.operands[1]).buffer)] : 1;
      const std::int64_t experts = sharing * shape_of(i.results[1])[0];
      choices_of_all(i.results[1]) = count(shape_of(i.operands[0]));
      sum(i.results[1]) = shared_out(count(shape_of(i.operands[0])), experts, sharing, i);
      break;
    }
    case Op::gather:
      sum(i.results[0]) = sum(i.operands[0]) * static_cast<double>(std::get<graph::GroupOf>(i.attributes).members);
      break;
    case Op::plan_exchange: {
      const std::int64_t experts = shape_of(i.operands[0])[1];
      sum(i.results[1]) = shared_out(sum(i.operands[0]), experts, experts / shape_of(i.results[1])[0], i);
      break;
    }
    case Op::list_tokens: {
      // As if the share of the rows that this device has were its share of the experts.
      const auto& of = std::get<graph::GroupOf>(i.attributes);
      const auto choices = static_cast<double>(of.choices), experts = static_cast<double>(of.experts);
      const double room = count(shape_of(i.results[0])), of_all = choices_of_all(i.operands[1]);
      const double tokens = std::isfinite(of_all) ? of_all / choices : room;
      const double share = std::min(1.0, sum(i.operands[1]) / (tokens * choices));
      sum(i.results[3]) = std::min(room, tokens * chance_of_any(share * experts, choices, experts));
      break;
    }
    default: break;
  }
}

Shape RoutedRows::shape(const plan::View& view) const {
  Shape shape = view.shape;
  if (view.rows < 0) return shape;
  const double rows = sums_[static_cast<std::size_t>(plan_.view(view.rows).buffer)];
  shape[0] = static_cast<std::int64_t>(std::min(static_cast<double>(shape[0]), std::ceil(rows)));
  return shape;
}

}  // namespace moesh::forecast
