// Where the time of a step went: its instructions by kind, next to what the plan predicts for them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forecast/timing.h"
#include "plan/plan.h"
#include "run/program.h"

namespace moesh::measure {

// What an instruction does: its op's name, or "copy".
std::string_view deed_of(const plan::Instruction& instruction);

// Instructions of one kind in one step, summed over all devices.
struct KindTime {
  std::string kind;  // "einsum bfloat16"
  std::int64_t runs = 0;
  double seconds = 0;
  double flops = 0;    // of matrix products and attention; if a router decides, for one that favours no expert
  double bytes = 0;    // read and written, each operand and result once
  double planned = 0;  // seconds on the machine that the plan is made for
};

// The longest first. `timings` are the plan's.
std::vector<KindTime> times_by_kind(const plan::Plan& plan, std::span<const forecast::Timing> timings,
                                    std::span<const run::Span> spans);

// The same by instruction; its kind is what it does and where: "einsum bfloat16 decoder/logits_dense".
std::vector<KindTime> times_by_instruction(const plan::Plan& plan, std::span<const forecast::Timing> timings,
                                           std::span<const run::Span> spans);

// The seconds that the plan predicts for all of them, one after another.
double planned_seconds(std::span<const KindTime> times);

}  // namespace moesh::measure
