#include "cli/planned_run.h"

#include "advice/fit.h"
#include "advice/planned.h"
#include "base/error.h"
#include "decode/planned.h"

namespace moesh::cli {

std::optional<session::DecodeStage> decode_stage(const Arguments& arguments) {
  const bool decodes = arguments.has(kDecodeStep.name), prefills = arguments.has(kPrefillStep.name);
  if (decodes && prefills) refuse("--decode and --prefill plan different steps", "the command line", "give one of them");
  if (decodes) return session::DecodeStage::token;
  if (prefills) return session::DecodeStage::prompt;
  return std::nullopt;
}

session::Session open_run(const std::vector<std::string>& request, std::optional<session::DecodeStage> stage) {
  return stage ? session::open_to_decode(request, *stage) : session::open(request);
}

std::string fit_words(const session::Session& session) { return session.decodes ? decode::fit_words(session) : advice::fit_words(session); }

PlannedRun plan_run(const std::vector<std::string>& request, std::optional<session::DecodeStage> stage) {
  if (!stage) {
    advice::Planned planned = advice::plan_step(request);
    train::StepProgram& program = planned.step.program;
    return {std::move(planned.session), std::move(program.plan), std::move(program.choices), std::move(planned.step.forecast)};
  }
  session::Session session = open_run(request, stage);
  decode::PlannedStep step = decode::plan_step(session);
  step.forecast.decoding->most = decode::most_rows(session, step.forecast);
  return {std::move(session), std::move(step.plan), std::move(step.program.choices), std::move(step.forecast)};
}

}  // namespace moesh::cli
