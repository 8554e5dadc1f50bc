#include "cli/typical_step.h"

#include <algorithm>
#include <optional>

#include "base/progress.h"
#include "train/batches.h"

namespace moesh::cli {
namespace {

constexpr std::int64_t kUntimed = 1;

double seconds_of(const Spans& spans) { return spans.empty() ? 0 : spans.back().end; }

}  // namespace

Spans middle_of(std::vector<Spans> steps) {
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end(), [](const Spans& a, const Spans& b) { return seconds_of(a) < seconds_of(b); });
  return std::move(*middle);
}

double TypicalStep::seconds() const { return seconds_of(spans_); }

TypicalStep::TypicalStep(const session::Session& session, std::int64_t steps, backend::Workers& workers, bool tells) {
  const config::Settings& settings = session.loaded.settings;
  trainer_ = std::make_unique<train::Trainer>(train::step_program(session.graph, settings, {session.layout, session.target}), settings,
                                              workers);
  initialize(*trainer_, session.graph, settings.integer("init_weights_seed"), workers);
  train::Batches batches(settings, session.batch, session.shape.vocab_size, workers.threads());
  std::vector<Spans> timed;
  std::optional<Progress> progress;
  if (tells) progress.emplace("step", kUntimed + steps);
  for (std::int64_t step = 0; step < kUntimed + steps; ++step) {
    if (progress) progress->advance(step);
    const train::Batch batch = batches.at(step, trainer_->pool());
    Spans spans;
    trainer_->run_step(batch, {.spans = &spans});
    if (step >= kUntimed) timed.push_back(std::move(spans));
  }
  spans_ = middle_of(std::move(timed));
}

}  // namespace moesh::cli
