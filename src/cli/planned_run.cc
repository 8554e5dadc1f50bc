#include "cli/planned_run.h"

#include "advice/fit.h"
#include "advice/planned.h"
#include "base/error.h"
#include "decode/planned.h"

namespace moesh::cli {

std::optional<session::DecodeStage> decode_stage(const Arguments& arguments) {
  const bool decodes = arguments.has(kDecodeStep.name), prefills = arguments.has(kPrefillStep.name);
  if (decodes && prefills) refuse("--decode and --prefill plan different steps", kCommandLine, "give one of them");
  if (decodes) return session::DecodeStage::token;
  if (prefills) return session::DecodeStage::prompt;
  return std::nullopt;
}

session::Session open_run(const std::vector<std::string>& request, std::optional<session::DecodeStage> stage, session::Evenness evenness,
                          const config::Engine& engine) {
  return session::run_by(engine, stage ? session::open_to_decode(request, *stage, evenness) : session::open(request, evenness));
}

std::string fit_words(const session::Session& session) { return session.decodes ? decode::fit_words(session) : advice::fit_words(session); }

PlannedRun plan_run(const std::vector<std::string>& request, std::optional<session::DecodeStage> stage, const config::Engine& engine) {
  session::Session session = open_run(request, stage, session::Evenness::demanded, engine);
  if (!stage) advice::note_unheeded(session);
  PlannedRun planned = advice::plan_run(std::move(session));
  if (stage) planned.forecast.decoding->most = decode::most_rows(planned.session, planned.forecast);
  return planned;
}

}  // namespace moesh::cli
