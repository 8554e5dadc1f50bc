// Checks of a planned step: for work and memory that devices repeat, and for traffic over slow links.
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

// What all devices along an axis compute and hold alike.
struct Repeated {
  mesh::AxisIndex axis = 0;
  double flops = 0;                                 // the share of a device's FLOPs in products and attention
  std::int64_t state = 0;                           // bytes of parameters and moments in a device's memory
  std::int64_t activations = 0;                     // bytes of saved activations at the peak
  std::vector<std::pair<std::string, double>> ops;  // the share of FLOPs by path, the largest first
};

// One entry per axis larger than one.
std::vector<Repeated> repeated_along(const StepView& view);

// Finds work and activations that are repeated along an axis, and parameters and moments if they are a large part of the memory.
void find_repeated(const StepView& view, const std::vector<std::string>& sets, std::vector<sharding::Finding>& findings);

// Finds axes that span several slices or nodes and carry traffic in every layer for which kernels wait.
void find_slow_links(const StepView& view, std::vector<sharding::Finding>& findings);

// Finds a step whose kernels wait for communication much of the time.
void find_waits(const StepView& view, std::vector<sharding::Finding>& findings);

// Finds experts that wait for tokens, while chunks of these could be on their way beside products.
void find_exposed_exchange(const StepView& view, std::vector<sharding::Finding>& findings);

// Finds a batch that takes several passes.
void find_many_passes(const StepView& view, std::vector<sharding::Finding>& findings);

// Finds experts that compute tokens which did not choose them.
void find_dense_experts(const StepView& view, std::vector<sharding::Finding>& findings);

// Finds products in float32 on chips.
void find_wide_products(const StepView& view, std::vector<sharding::Finding>& findings);

}  // namespace moesh::advice
