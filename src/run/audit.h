// Compares a run with its plan: how often devices exchanged what, how many bytes that moved, and how much memory was taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"
#include "run/program.h"

namespace moesh::run {

struct AuditLine {
  plan::InstructionId instruction = -1;
  graph::ReshardOf::Kind kind = graph::ReshardOf::Kind::all_gather;
  std::string path;
  std::int64_t planned_runs = 0, runs = 0;
  // What all devices together receive from others. If the router decides the amount, the plan knows only an upper bound.
  std::int64_t planned_bytes = 0, bytes = 0;
  bool is_bound = false;

  bool holds() const { return runs == planned_runs && (is_bound ? bytes <= planned_bytes : bytes == planned_bytes); }
};

struct Audit {
  std::vector<AuditLine> collectives;
  std::int64_t planned_memory = 0, memory = 0;  // bytes of this process: state and arenas

  // Describes the first difference; empty if there is none.
  std::string difference() const;
};

// Joins collectives of one kind that come from the same node into one line, unless they differ from the plan.
std::vector<AuditLine> folded(const std::vector<AuditLine>& all);

// Over all runs of the program so far.
Audit audit(const Program& program);

}  // namespace moesh::run
