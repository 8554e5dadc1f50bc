// How many rows there are where values count them, when a router favours no expert.
#pragma once

#include <cmath>
#include <vector>

#include "plan/plan.h"

namespace moesh::forecast {

class EvenRows {
 public:
  explicit EvenRows(const plan::Plan& plan);

  // The view's shape with as many rows as its numbers are expected to add up to.
  Shape shape(const plan::View& view) const;

 private:
  void see(const plan::Instruction& instruction);
  double& sum(plan::ViewId view) { return sums_[static_cast<std::size_t>(plan_.view(view).buffer)]; }

  const plan::Plan& plan_;
  std::vector<double> sums_;           // by buffer: what its numbers add up to
  std::vector<std::int64_t> members_;  // by buffer of a device's number: among how many
};

}  // namespace moesh::forecast
