#include "advice/planned.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "config/builtin.h"
#include "config/load.h"
#include "graph/print.h"
#include "session/reopen.h"
#include "train/model_size.h"
#include "train/notes.h"
#include "train/offload.h"

namespace moesh::advice {
namespace {

constexpr std::int64_t kNodesOfAllTrials = 50'000;
constexpr std::int64_t kLeastTrials = 4;
constexpr std::int64_t kNodesAtOnce = 1500;

}  // namespace

int most_trials(const session::Session& session) {
  return static_cast<int>(std::max(kLeastTrials, kNodesOfAllTrials / graph::count(session.graph).nodes));
}

std::vector<std::string> rule_sets_to_try() {
  std::vector<std::string> sets = config::builtin_names("rules");
  std::erase_if(sets, [](const std::string& name) { return name.starts_with("pipeline"); });
  return sets;
}

bool plans_at_once(const session::Session& session) { return graph::count(session.graph).nodes <= kNodesAtOnce; }

namespace {

// Other programs have the fused attention and the look-ups of a plan, and add up gradients in place.
forecast::Elsewhere elsewhere_of(const session::Session& session, const train::StepProgram& program, const train::Where& where) {
  const config::Settings& settings = session.loaded.settings;
  forecast::Elsewhere made = train::elsewhere_of(session.graph, program, where, settings);
  if (session.engine.is_xla()) return made;
  made.materialised = {.vocab_parts = made.materialised.vocab_parts * session.engine.parts_of_loss,
                       .bytes_of_logit = session.engine.bytes_of_logit};
  return made;
}

}  // namespace

PlannedStep plan_step(const session::Session& session) {
  const config::Settings& settings = session.loaded.settings;
  const train::Where where{session.layout, session.target};
  train::StepProgram program = train::step_program(session.graph, settings, where);
  const std::int64_t length = settings.integer("max_target_length");
  const std::int64_t tokens = session.batch.rows_to_train * length;
  const train::ModelSize size = train::model_size(session.graph, session.shape, tokens, length);
  forecast::Forecast made = forecast::forecast(program.plan, session.layout, session.target, {static_cast<double>(tokens), size.step_flops},
                                               elsewhere_of(session, program, where));
  made.program = session.engine.program;
  made.reduces_once = program.reduction == train::Reduction::once;
  return {std::move(program), std::move(made)};
}

void note_unheeded(const session::Session& session) {
  const config::Settings& settings = session.loaded.settings;
  if (!session.target.chip.has_memory_of_host()) train::say_what_stays_on_device(settings);
  if (const std::string words = config::idle_indexer(settings); !words.empty()) log_notice(words);
}

Planned plan_step(const std::vector<std::string>& request) {
  session::Session session = session::open(request);
  note_unheeded(session);
  PlannedStep step = plan_step(session);
  return {std::move(session), std::move(step)};
}

std::optional<session::Session> lay_out_keys(const Request& request, const Keys& keys, session::Evenness evenness) {
  try {
    return session::run_by(request.engine(), session::reopen(request.with(keys), evenness));
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<Planned> try_plan(session::Session session) {
  try {
    PlannedStep step = plan_step(session);
    return Planned{std::move(session), std::move(step)};
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<Planned> try_keys(const Request& request, const Keys& keys) {
  std::optional<session::Session> session = lay_out_keys(request, keys);
  return session ? try_plan(std::move(*session)) : std::nullopt;
}

}  // namespace moesh::advice
