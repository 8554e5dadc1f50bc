// What runs in a step and what memory holds, over its predicted time.
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
  std::vector<const Sent*> sent;   // by instruction; null for what is no collective

  const plan::Instruction& instruction(plan::InstructionId id) const {
    return shown.plan.instructions[static_cast<std::size_t>(id)];
  }
  const Sent* sent_by(plan::InstructionId id) const { return sent[static_cast<std::size_t>(id)]; }
  // Bytes of all components.
  std::int64_t held_at(plan::InstructionId id) const { return total(memory[static_cast<std::size_t>(id)]); }
  const Timing& timing(plan::InstructionId id) const { return timings[static_cast<std::size_t>(id)]; }
};

Course course_of(const ShownPlan& shown);

// Equal parts of a stretch of time.
struct Bins {
  std::size_t count = 1;
  double seconds = 0;  // all together

  double width() const { return seconds / static_cast<double>(count); }
};

// By shade and bin: the share of the bin in which what is of that shade runs. What has no shade is not drawn. Loops of
// many iterations have their mean.
using Shares = std::vector<std::vector<double>>;
Shares shares_of(const Course& course, const Bins& bins, std::size_t shades,
                 const std::function<std::optional<std::size_t>(plan::InstructionId)>& shade);

// By bin: the instruction of those that run then at which the most memory is held; -1 behind the step's end. The loop's
// fullest stands for its iterations.
std::vector<plan::InstructionId> fullest_of(const Course& course, const Bins& bins);

// A stretch of a step with a name.
struct Stretch {
  std::string name;
  double begin = 0, end = 0;
  std::int64_t iterations = 1;
};

std::vector<Stretch> phases_of(const Course& course);
// Of loops that stand in no other one.
std::vector<Stretch> loops_of(const Course& course);

// One iteration of the loop in which most of a phase is spent, as all run but the first ones; a part of the phase where
// it has none.
struct LayerWindow {
  plan::InstructionId loop = -1;
  std::int64_t count = 1;  // of the loop's iterations
  double begin = 0, end = 0;
};
std::optional<LayerWindow> layer_window(const Course& course, graph::Phase phase);

// A run of an instruction.
struct Run {
  plan::InstructionId instruction = -1;
  double start = 0, finish = 0;
  plan::InstructionId after = -1;  // whose end it waits for
};

// Those that have a part in the stretch, in the order in which they start.
std::vector<Run> runs_between(const Course& course, double begin, double end);

// Where the most memory is held about an instruction: itself, or a loop's border beside it, which takes no time of its
// own.
plan::InstructionId fullest_near(const Course& course, plan::InstructionId id);

}  // namespace moesh::forecast
