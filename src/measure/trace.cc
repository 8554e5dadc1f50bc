#include "measure/trace.h"

#include <fmt/core.h>

#include "base/json.h"
#include "measure/profile.h"

namespace moesh::measure {
namespace {

using plan::Instruction;

// There are two processes, the run and the plan, each with kernels and copies in one row and collectives in another; the run also has a row
// for its steps, above these.
constexpr int kRun = 1, kPlan = 2;
constexpr int kSteps = 0, kKernels = 1, kCollectives = 2;

std::string name_event(const char* what, int process, int thread, const std::string& name) {
  JsonWriter json;
  json.begin_object().key("name").value(what).key("ph").value("M").key("pid").value(process).key("tid").value(thread);
  json.key("args").begin_object().key("name").value(name).end_object().end_object();
  return json.text();
}

}  // namespace

Trace::Trace(const plan::Plan& plan, std::span<const forecast::Timing> timings, const std::string& planned_for)
    : plan_(plan), timings_(timings) {
  const auto name = [&](const char* what, int process, int thread, const std::string& text) {
    events_ += (events_.empty() ? "" : ",\n") + name_event(what, process, thread, text);
  };
  name("process_name", kRun, 0, "this run");
  name("process_name", kPlan, 0, "planned for " + planned_for + ", one after the other");
  name("thread_name", kRun, kSteps, "steps");
  for (const int process : {kRun, kPlan}) {
    name("thread_name", process, kKernels, "kernels and copies");
    name("thread_name", process, kCollectives, "collectives");
  }
}

// Times are in microseconds, as the format requires.
void Trace::add_event(const std::string& name, int process, int thread, double begin, double seconds, const std::string& arguments) {
  JsonWriter json;
  json.begin_object().key("name").value(name).key("ph").value("X").key("pid").value(process).key("tid").value(thread);
  json.key("ts").value(begin * 1e6).key("dur").value(seconds * 1e6);
  if (!arguments.empty()) json.key("args").raw(arguments);
  events_ += ",\n" + json.end_object().text();
}

void Trace::add(std::int64_t step, double begin, std::span<const run::Span> spans) {
  const double seconds = spans.empty() ? 0 : spans.back().end;
  add_event(fmt::format("step {}", step), kRun, kSteps, begin, seconds, "");
  double planned = begin;
  for (const run::Span& span : spans) {
    const auto i = static_cast<std::size_t>(span.instruction);
    const Instruction& instruction = plan_.instructions[i];
    const forecast::Timing& timing = timings_[i];
    const int thread = instruction.kind == Instruction::Kind::collective ? kCollectives : kKernels;
    JsonWriter json;
    json.begin_object().key("instruction").value(static_cast<std::int64_t>(span.instruction)).key("planned_us").value(timing.seconds * 1e6);
    json.key("phase").value(graph::name_of(instruction.phase));
    if (timing.work.flops > 0) json.key("flops").value(timing.work.flops);
    if (timing.sent) json.key("operand_bytes").value(static_cast<std::int64_t>(timing.sent->operand_bytes));
    json.end_object();
    const std::string name = fmt::format("{} {}", deed_of(instruction), instruction.path);
    add_event(name, kRun, thread, begin + span.begin, span.end - span.begin, json.text());
    add_event(name, kPlan, thread, planned, timing.seconds, "");
    planned += timing.seconds;
  }
}

std::string Trace::text() const {
  return fmt::format("{}{}\"}}, \"displayTimeUnit\": \"ms\", \"traceEvents\": [\n{}\n]}}\n", kSignature, MOESH_VERSION, events_);
}

}  // namespace moesh::measure
