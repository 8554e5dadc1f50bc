// What is odd about a step that was planned: what devices repeat, and what crosses slow links.
#pragma once

#include <vector>

#include "advice/planned.h"
#include "sharding/finding.h"

namespace moesh::advice {

// A step, and the layout and target that it was planned for.
struct StepView {
  const session::Session& session;
  const PlannedStep& step;
};

// Of an axis: what the devices along it do alike.
struct Repeated {
  mesh::AxisIndex axis = 0;
  double flops = 0;            // the share of a device's products and attention
  std::int64_t state = 0;      // bytes of parameters and moments
  std::int64_t activations = 0;  // bytes of saved activations at the peak
  std::vector<std::pair<std::string, double>> ops;  // of the flops, by path, the largest first
};

// Of each axis larger than one.
std::vector<Repeated> repeated_along(const StepView& view);

// Work and activations that are repeated along an axis, and parameters and moments where they are a large part of the memory.
void find_repeated(const StepView& view, const std::vector<std::string>& sets, std::vector<sharding::Finding>& findings);

// Axes whose devices stand in several slices or nodes, and exchange something in every layer.
void find_slow_links(const StepView& view, std::vector<sharding::Finding>& findings);

}  // namespace moesh::advice
