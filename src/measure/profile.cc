#include "measure/profile.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/core.h>

#include "sharding/spec.h"

namespace moesh::measure {
namespace {

using plan::Instruction;

std::string kind_of(const Instruction& of, const plan::Plan& plan) {
  return fmt::format("{} {}", deed_of(of), name_of(plan.view(of.results.front()).dtype));
}

template <typename Name>
std::vector<KindTime> summed(const plan::Plan& plan, std::span<const forecast::Timing> timings, std::span<const run::Span> spans,
                             const Name& name) {
  std::map<std::string, KindTime> by_name;
  for (const run::Span& span : spans) {
    const auto i = static_cast<std::size_t>(span.instruction);
    const Instruction& instruction = plan.instructions[i];
    const forecast::Timing& timing = timings[i];
    const auto devices =
        static_cast<double>(sharding::shards(sharding::distinct_axes(plan.view(instruction.results.front()).spec), plan.mesh));
    KindTime& time = by_name[name(instruction)];
    ++time.runs;
    time.seconds += span.end - span.begin;
    time.flops += devices * timing.work.flops;
    time.bytes += devices * timing.work.bytes;
    time.planned += timing.seconds;
  }
  std::vector<KindTime> times;
  for (auto& [kind, time] : by_name) {
    time.kind = kind;
    times.push_back(std::move(time));
  }
  std::stable_sort(times.begin(), times.end(), [](const KindTime& a, const KindTime& b) { return a.seconds > b.seconds; });
  return times;
}

}  // namespace

std::string_view deed_of(const Instruction& of) { return of.kind == Instruction::Kind::copy ? "copy" : name_of(of.op); }

std::vector<KindTime> times_by_kind(const plan::Plan& plan, std::span<const forecast::Timing> timings, std::span<const run::Span> spans) {
  return summed(plan, timings, spans, [&](const Instruction& of) { return kind_of(of, plan); });
}

std::vector<KindTime> times_by_instruction(const plan::Plan& plan, std::span<const forecast::Timing> timings,
                                           std::span<const run::Span> spans) {
  return summed(plan, timings, spans, [&](const Instruction& of) { return kind_of(of, plan) + " " + of.path; });
}

double planned_seconds(std::span<const KindTime> times) {
  return std::accumulate(times.begin(), times.end(), 0.0, [](double sum, const KindTime& time) { return sum + time.planned; });
}

}  // namespace moesh::measure
