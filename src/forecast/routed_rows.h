// The number of rows on a device in values whose rows are counted at run time, for several kinds of routers.
#pragma once

#include <optional>
#include <vector>

#include "forecast/expert_draw.h"
#include "plan/plan.h"

namespace moesh::forecast {

enum class Router : std::uint8_t {
  even,   // favours no expert; stands for any device
  drawn,  // draws experts as the plan does, with experts placed at random; stands for the busiest device that is to be expected
  hottest_together,  // the same, but the experts that are drawn most often lie on one device
};

// The law by which the plan draws experts at random; nothing if the model's own routers choose.
std::optional<graph::DrawOf> law_of(const plan::Plan& plan);

// The draw that decides how many rows a device gets in an instruction that counts them, and the resulting load.
struct Counted {
  Draw draw;
  std::int64_t limit = 0;   // of the rows of a device; 0: none
  std::int64_t room = 0;    // for the rows of a device
  bool is_bounded = false;  // whether more rows could come
  Load load;
};

class RoutedRows {
 public:
  // If the plan has no law, all routers are taken as even.
  RoutedRows(const plan::Plan& plan, Router router);

  // The view's shape, with the number of rows to which its counts are expected to add up.
  Shape shape(const plan::View& view) const;

  // One entry per instruction that shares out rows among devices, in the plan's order; empty without a law.
  const std::vector<Counted>& counted() const { return counted_; }

 private:
  void see(const plan::Instruction& instruction);
  double shared_out(double rows, std::int64_t experts, std::int64_t devices, const plan::Instruction& instruction);
  Counted counted(const Draw& draw, std::int64_t limit) const;
  double& sum(plan::ViewId view) { return sums_[static_cast<std::size_t>(plan_.view(view).buffer)]; }

  const plan::Plan& plan_;
  Router router_;
  std::optional<graph::DrawOf> law_;
  std::int64_t choices_ = 1;           // per token
  std::vector<double> sums_;           // by buffer: the expected sum of its counts
  std::vector<double> choices_of_all_;  // by buffer of sizes: the choices that were sorted, also those without room
  std::vector<std::int64_t> members_;  // by buffer that holds a device's index: the size of the group
  std::vector<Counted> counted_;
};

}  // namespace moesh::forecast
