// A trace of steps for chrome://tracing and ui.perfetto.dev: what ran when, next to what the plan predicts.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "forecast/timing.h"
#include "plan/plan.h"
#include "run/program.h"

namespace moesh::measure {

class Trace {
 public:
  static constexpr std::string_view kSignature = R"({"otherData": {"moesh": ")";  // the beginning of its text

  // `planned_for`: the machine that the plan is made for. `plan` and the timings must outlive the trace.
  Trace(const plan::Plan& plan, std::span<const forecast::Timing> timings, const std::string& planned_for);

  // Adds a step that began `begin` seconds after the first one did.
  void add(std::int64_t step, double begin, std::span<const run::Span> spans);
  std::string text() const;  // the content of the file

 private:
  void add_event(const std::string& name, int process, int thread, double begin, double seconds, const std::string& arguments);

  const plan::Plan& plan_;
  std::span<const forecast::Timing> timings_;
  std::string events_;
};

}  // namespace moesh::measure
