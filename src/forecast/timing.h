// How long each instruction of a plan takes on the machine for which the plan is made.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/network.h"
#include "forecast/routed_rows.h"
#include "graph/facts.h"
#include "partition/collectives.h"
#include "plan/plan.h"

namespace moesh::forecast {

// The kinds of kernels, and their names in tables: "norms and losses".
inline constexpr std::size_t kKernelKinds = static_cast<std::size_t>(graph::KernelKind::rows) + 1;
std::string_view name_of(graph::KernelKind kind);

struct Timing {
  double seconds = 0;                         // per run
  graph::Work work;                           // of a kernel
  std::optional<partition::Collective> sent;  // of a collective, for a single run
  std::vector<std::size_t> links;             // indices of the chip's links that it keeps busy
  bool is_alone = false;                      // nothing runs beside it
};

// By instruction; `rows` tells how many rows there are in values whose rows are counted at run time.
std::vector<Timing> timings_of(const plan::Plan& plan, const cost::Network& network, const RoutedRows& rows);
std::vector<Timing> timings_of(const plan::Plan& plan, const cost::Network& network);  // with the rows of an even router

// An instruction on a machine that all devices share, where each distinct shard is computed once.
struct Task {
  std::string name;       // the key of its measured times: "einsum bfloat16", "all-gather float32"
  std::string otherwise;  // the key of all ops with the same bound, for an op that was not measured
  double work = 0;        // per run: FLOPs if it has any, otherwise bytes; of an exchange the bytes that all devices read and write
  double times = 1;       // number of runs
};

// By instruction; the name is empty for those that do nothing themselves. Instructions are measured and forecast as these tasks.
std::vector<Task> tasks_of(const plan::Plan& plan);

// The first instruction of the backward pass, which includes the recomputation of what the forward pass did not save; the end of the plan
// if there is none.
plan::InstructionId backward_begin(const plan::Plan& plan);

}  // namespace moesh::forecast
