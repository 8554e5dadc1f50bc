// The course of a step over its predicted time: what runs, and what memory holds.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "forecast/memory.h"
#include "forecast/page/shown_plan.h"
#include "forecast/schedule.h"
#include "forecast/timing.h"

namespace moesh::forecast {

struct Course {
  const ShownPlan& shown;
  std::vector<Timing> timings;  // by instruction
  Schedule schedule;
  std::vector<Components> memory;  // by instruction
  std::vector<const Sent*> sent;   // by instruction; null if it is not a collective

  const plan::Instruction& instruction(plan::InstructionId id) const {
    return shown.plan.instructions[static_cast<std::size_t>(id)];
  }
  const Sent* sent_by(plan::InstructionId id) const { return sent[static_cast<std::size_t>(id)]; }
  // The live bytes at an instruction, over all components.
  std::int64_t held_at(plan::InstructionId id) const { return total(memory[static_cast<std::size_t>(id)]); }
  const Timing& timing(plan::InstructionId id) const { return timings[static_cast<std::size_t>(id)]; }
};

Course course_of(const ShownPlan& shown);

// Equal parts of a stretch of time that begins at 0.
struct Bins {
  std::size_t count = 1;
  double seconds = 0;  // of all bins together

  double width() const { return seconds / static_cast<double>(count); }
};

// By shade and bin: the share of the bin in which instructions of that shade run. Instructions without a shade are not drawn. In a loop of
// many iterations all bins have its mean.
using Shares = std::vector<std::vector<double>>;
Shares shares_of(const Course& course, const Bins& bins, std::size_t shades,
                 const std::function<std::optional<std::size_t>(plan::InstructionId)>& shade);

// By bin: of the instructions that run then, the one at which the most memory is live; -1 after the step's end. In a loop of many
// iterations all bins have its fullest one.
std::vector<plan::InstructionId> fullest_of(const Course& course, const Bins& bins);

// A named stretch of a step.
struct Stretch {
  std::string name;
  double begin = 0, end = 0;
  std::int64_t iterations = 1;
};

std::vector<Stretch> phases_of(const Course& course);
// The outermost loops.
std::vector<Stretch> loops_of(const Course& course);

// One iteration of the loop that takes the most time of a phase, as all its iterations but the first run; if the phase has no loop, some
// part of the phase.
struct LayerWindow {
  plan::InstructionId loop = -1;
  std::int64_t count = 1;  // iterations of the loop
  double begin = 0, end = 0;
};
std::optional<LayerWindow> layer_window(const Course& course, graph::Phase phase);

// A run of an instruction.
struct Run {
  plan::InstructionId instruction = -1;
  double start = 0, finish = 0;
  plan::InstructionId after = -1;  // the instruction whose end it waits for
};

// The runs that overlap a stretch of time, in the order in which they start.
std::vector<Run> runs_between(const Course& course, double begin, double end);

// The instruction at which the most memory is live next to a given one: itself, or a loop's border beside it, which takes no time of its
// own.
plan::InstructionId fullest_near(const Course& course, plan::InstructionId id);

}  // namespace moesh::forecast
