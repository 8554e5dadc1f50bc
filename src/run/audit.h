// What a run did beside what its plan says: how often devices exchanged what, how many bytes that moved, how much memory it took.
#pragma once

#include <cstdint>
#include <optional>
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
  // That all devices together take from others. Where the router says how much it is, the plan knows only a bound.
  std::int64_t planned_bytes = 0, bytes = 0;
  bool is_bound = false;

  bool holds() const { return runs == planned_runs && (is_bound ? bytes <= planned_bytes : bytes == planned_bytes); }
};

struct Audit {
  std::vector<AuditLine> collectives;
  std::int64_t planned_memory = 0, memory = 0;  // of this process: state and arenas

  // The first thing that differs, in words; empty where all holds.
  std::string difference() const;
};

// Collectives of one kind that one node asks for in a line, unless they differ from the plan.
std::vector<AuditLine> folded(const std::vector<AuditLine>& all);

// Of all runs of the program so far.
Audit audit(const Program& program);

// The bytes that all devices together take from others when a collective runs once, at most where the router decides.
std::int64_t moved_bytes(const plan::Instruction& instruction, const plan::Plan& plan);

}  // namespace moesh::run
