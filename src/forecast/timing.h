// What each instruction of a plan takes on the machine that it is made for.
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

// Kernels of a kind, as tables have them: "norms and losses".
inline constexpr std::size_t kKernelKinds = static_cast<std::size_t>(graph::KernelKind::rows) + 1;
std::string_view name_of(graph::KernelKind kind);

struct Timing {
  double seconds = 0;                         // once
  graph::Work work;                           // of a kernel
  std::optional<partition::Collective> sent;  // of a collective, for a single run
  std::vector<std::size_t> links;             // of the chip's, that it keeps busy
  bool is_alone = false;                      // nothing runs beside it
};

// By instruction, with so many rows where values count them.
std::vector<Timing> timings_of(const plan::Plan& plan, const cost::Network& network, const RoutedRows& rows);
std::vector<Timing> timings_of(const plan::Plan& plan, const cost::Network& network);  // as an even router sends them

// An instruction as a machine does it whose devices share it: each shard that differs from the others once.
struct Task {
  std::string name;       // that its times are measured under: "einsum bfloat16", "all-gather float32"
  std::string otherwise;  // the name of all that are bounded alike, for one that was not measured
  double work = 0;        // once: FLOPs where it has them, else bytes; an exchange's are those of all devices, read and written
  double times = 1;       // that it is done
};

// By instruction; without a name for those that do nothing themselves. They are measured and forecast by this.
std::vector<Task> tasks_of(const plan::Plan& plan);

// By instruction: how often it runs in a step.
std::vector<std::int64_t> runs_of(const plan::Plan& plan);

}  // namespace moesh::forecast
