#include "train/evaluation.h"

#include <span>
#include <utility>

#include <fmt/core.h>

#include "backend/scalar.h"
#include "base/clock.h"
#include "base/rounding.h"
#include "base/text.h"
#include "config/data_kind.h"
#include "data/open.h"
#include "models/ahead.h"
#include "models/model.h"

namespace moesh::train {
namespace {

// The number of batches of an evaluation: eval_steps or, if that is negative, as many as cover the validation set once; it is never
// more than that, unless the data are synthetic.
std::int64_t batches_of(const config::Settings& settings, std::int64_t rows, std::int64_t rows_of_batch) {
  const std::int64_t asked = settings.integer("eval_steps"), all = divide_up(rows, rows_of_batch);
  const bool has_end = !config::is_synthetic(settings);
  return asked < 0 ? all : has_end ? std::min(asked, all) : asked;
}

}  // namespace

bool is_evaluated_after(const config::Settings& settings, std::int64_t step) {
  const std::int64_t first = settings.integer("eval_start_step"), interval = settings.integer("eval_interval");
  return interval > 0 && step >= first && (step - first) % interval == 0;
}

bool reaches_target(const config::Settings& settings, double loss) {
  const double target = settings.real("target_eval_loss");
  return target > 0 && loss <= target;
}

Evaluation::Evaluation(const Subject& subject, StepProgram program, Trainer& trainer, int threads)
    : settings_(subject.settings),
      trainer_(trainer),
      source_(data::open_validation(subject.settings, subject.batch.rows_to_load, threads)),
      rows_(subject.batch.rows_to_train),
      length_(subject.settings.integer("max_target_length")),
      vocab_size_(subject.settings.integer("vocab_size")),
      batches_(batches_of(subject.settings, source_->rows(length_), rows_)),
      examined_(subject.settings.integer("mtp_eval_target_module")),
      has_indexer_(subject.settings.boolean("use_indexer")),
      feeding_(subject.settings, 1, program.mesh),
      program_(trainer.beside(std::move(program.plan))) {}

std::string Evaluation::describe() const {
  const std::int64_t interval = settings_.integer("eval_interval");
  return fmt::format("every {} on {} batch{} of {} of {}", interval == 1 ? "step" : counted(interval, "step"),
                     with_commas(batches_), batches_ == 1 ? "" : "es", counted(rows_, "row"), source_->describe());
}

double Evaluation::result(const char* name) const {
  const run::Placed value = program_.output(name);
  return value ? backend::load_scalar(value.shards.front().view) : 0;
}

// In the order of the batch. Every device has all of them.
run::Array Evaluation::guesses(const char* name) const {
  const run::Array made = program_.output(name).any_shard();
  return feeding_.as_given(reshaped(made, {1, rows_, length_}), trainer_.pool());
}

double Evaluation::acceptance(const Batch& batch) const {
  const auto values = [&](const run::Array& of) {
    return std::span<const std::int32_t>(of.as<std::int32_t>(), static_cast<std::size_t>(rows_ * length_));
  };
  const run::Array by_model = guesses(models::results::guesses), by_module = guesses(models::results::guesses_ahead);
  const run::Array &counts = batch.at(models::inputs::target_segments), &segments = batch.at(models::inputs::segments);
  const std::vector<std::int32_t> counted = models::values_ahead(values(counts), values(segments), length_, examined_);
  return models::percent_accepted(values(by_model), values(by_module), counted, length_, examined_);
}

Batch Evaluation::read(std::int64_t number) {
  return make_batch(make_rows(*source_, number * rows_, rows_, length_), vocab_size_, trainer_.pool());
}

std::optional<EvalMetrics> Evaluation::run(std::int64_t step, const std::function<bool(const std::exception_ptr& failure)>& must_end,
                                           const std::function<void(std::int64_t)>& see) {
  const auto begin = Clock::now();
  EvalMetrics metrics;
  double entropy = 0, z_loss = 0, balance = 0, mtp = 0, index = 0, accepted = 0;
  for (; metrics.batches < batches_; ++metrics.batches) {
    Batch batch;
    std::exception_ptr failure;
    try {
      batch = read(metrics.batches);
    } catch (...) {
      failure = std::current_exception();
    }
    if (must_end(failure)) return std::nullopt;
    if (see) see(metrics.batches);
    feeding_.feed(program_, batch, {.step = step}, trainer_.pool());
    program_.run();
    entropy += result(models::results::entropy_sum);
    metrics.total_weights += result(models::results::positions);
    z_loss += result(models::results::z_loss);
    balance += result(models::results::balance_loss);
    mtp += result(models::results::mtp_loss);
    index += result(models::results::index_loss);
    if (examined_ > 0) accepted += acceptance(batch);
  }
  metrics.step = step;
  metrics.loss = entropy / (metrics.total_weights + models::kPositionsOffset);
  const auto mean = [&](double sum) { return batches_ == 0 ? 0 : sum / static_cast<double>(batches_); };
  metrics.z_loss = mean(z_loss);
  metrics.balance_loss = mean(balance);
  if (examined_ > 0) {
    metrics.mtp_loss = mean(mtp);
    metrics.mtp_acceptance = mean(accepted);
  }
  if (has_indexer_) metrics.index_loss = mean(index);
  metrics.seconds = seconds_since(begin);
  return metrics;
}

}  // namespace moesh::train
