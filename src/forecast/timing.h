// What each instruction of a plan takes on the machine that it is made for.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "cost/network.h"
#include "forecast/routed_rows.h"
#include "graph/facts.h"
#include "partition/collectives.h"
#include "plan/plan.h"

namespace moesh::forecast {

struct Timing {
  double seconds = 0;                         // once
  graph::Work work;                           // of a kernel
  std::optional<partition::Collective> sent;  // of a collective, for a single run
  std::vector<std::size_t> links;             // of the chip's, that it keeps busy
};

// By instruction, with so many rows where values count them.
std::vector<Timing> timings_of(const plan::Plan& plan, const cost::Network& network, const RoutedRows& rows);
std::vector<Timing> timings_of(const plan::Plan& plan, const cost::Network& network);  // as an even router sends them

// By instruction: how often it runs in a step.
std::vector<std::int64_t> runs_of(const plan::Plan& plan);

}  // namespace moesh::forecast
