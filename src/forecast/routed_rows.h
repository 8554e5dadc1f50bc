// How many rows there are where values count them, on a device that routers send so many.
#pragma once

#include <optional>
#include <vector>

#include "forecast/expert_draw.h"
#include "plan/plan.h"

namespace moesh::forecast {

enum class Router : std::uint8_t {
  even,   // favours no expert: any device
  drawn,  // draws experts as the plan does, and they lie in random order: the busiest device that is to be expected
  hottest_together,  // the same, but those that are drawn the most lie on one device
};

// By what law the plan draws experts at random; nothing where the model's own routers choose.
std::optional<graph::DrawOf> law_of(const plan::Plan& plan);

// What is drawn for the rows of a device that an instruction counts.
struct Counted {
  Draw draw;
  std::int64_t room = 0;    // for them
  bool is_bounded = false;  // whether more could come
  Load load;
};

class RoutedRows {
 public:
  // Without a law all routers are even.
  RoutedRows(const plan::Plan& plan, Router router);

  // The view's shape with as many rows as its numbers are expected to add up to.
  Shape shape(const plan::View& view) const;

  // Where rows are shared out among devices, in the plan's order; empty without a law.
  const std::vector<Counted>& counted() const { return counted_; }

 private:
  void see(const plan::Instruction& instruction);
  double shared_out(double rows, std::int64_t experts, std::int64_t devices, const plan::Instruction& instruction);
  Counted counted(const Draw& draw, std::int64_t limit) const;
  double& sum(plan::ViewId view) { return sums_[static_cast<std::size_t>(plan_.view(view).buffer)]; }

  const plan::Plan& plan_;
  Router router_;
  std::optional<graph::DrawOf> law_;
  std::int64_t choices_ = 1;           // of a token
  std::vector<double> sums_;           // by buffer: what its numbers add up to
  std::vector<std::int64_t> members_;  // by buffer of a device's number: among how many
  std::vector<Counted> counted_;
};

}  // namespace moesh::forecast
