#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "backend/element.h"
#include "backend/scalar.h"
#include "base/error.h"
#include "base/text.h"
#include "train/initialize.h"
#include "train/update.h"

namespace moesh::train {
namespace {

using run::Array;
using run::Placed;

double scalar(const Placed& value) {
  const double number = backend::load_scalar(value.shards.front().view);
  return std::isnan(number) ? std::numeric_limits<double>::quiet_NaN() : number;  // without a sign
}

// The array's slices along its first dim, which share its memory.
std::vector<Array> along_first(const Array& array) {
  const Shape shape(array.view.shape.begin() + 1, array.view.shape.end());
  std::vector<Array> parts;
  for (std::int64_t i = 0; i < array.view.size(0); ++i) {
    std::byte* begin = array.raw() + i * (array.bytes() / array.view.size(0));
    parts.push_back({array.storage, backend::View{begin, array.view.dtype, shape}});
  }
  return parts;
}

bool is_finite(const Array& array) {
  if (!array || !is_floating(array.view.dtype)) return true;
  bool all = true;
  backend::for_floating(array.view.dtype, [&]<typename T>() {
    const T* values = array.as<T>();
    all = std::all_of(values, values + array.view.count(), [](T value) { return std::isfinite(backend::load(value)); });
  });
  return all;
}

bool is_finite(const Placed& value) {
  return std::all_of(value.shards.begin(), value.shards.end(), [](const Array& shard) { return is_finite(shard); });
}

// Adds the counts of one microbatch, [layers, E + 1].
void add_load(const Array& counted, ExpertLoad& sum) {
  const std::int64_t layers = counted.view.size(0);
  sum.experts = counted.view.size(1) - 1;
  sum.tokens.resize(static_cast<std::size_t>(layers * sum.experts));
  sum.dropped.resize(static_cast<std::size_t>(layers));
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const float* row = counted.as<float>() + layer * (sum.experts + 1);
    for (std::int64_t e = 0; e < sum.experts; ++e) sum.tokens[static_cast<std::size_t>(layer * sum.experts + e)] += row[e];
    sum.dropped[static_cast<std::size_t>(layer)] += row[sum.experts];
  }
}

}  // namespace

double ExpertLoad::max_over_mean(std::int64_t layer) const {
  const auto first = tokens.begin() + layer * experts;
  const double sum = std::accumulate(first, first + experts, 0.0);
  return sum == 0 ? 0 : *std::max_element(first, first + experts) * static_cast<double>(experts) / sum;
}

double ExpertLoad::max_over_mean() const {
  double most = 0;
  for (std::int64_t layer = 0; layer < layers(); ++layer) most = std::max(most, max_over_mean(layer));
  return most;
}

Trainer::Trainer(StepProgram program, const config::Settings& settings, backend::Workers& workers, const Company& company)
    : settings_(settings),
      workers_(workers),
      company_(company),
      parameters_(std::move(program.parameters)),
      feeding_(settings, program.microbatches, program.mesh),
      recent_(settings),
      owners_(program.owners),
      program_(std::move(program.plan), state_, workers, options(program.mesh)) {
  for (const plan::Port& port : plan().ports) {
    if (port.kind == plan::Port::Kind::state) state_buffers_.emplace(plan().view(port.view).buffer, port.name);
  }
  std::set<std::string_view> known;
  const auto add = [&](std::string_view name) {
    if (known.insert(name).second) state_names_.emplace_back(name);
  };
  for (const plan::Instruction& instruction : plan().instructions) {
    for (const std::string_view name : changed_by(instruction)) add(name);
  }
  for (const auto& [buffer, name] : state_buffers_) add(name);
}

run::ProgramOptions Trainer::options(const mesh::Mesh& mesh) const {
  return {.backend = backend::find_backend(settings_.text("backend")),
          .owners = mesh::Owners::in_a_row(mesh, owners_),
          .processes = company_.processes,
          .checks_collectives = company_.checks_collectives};
}

run::Program Trainer::beside(plan::Plan plan) const {
  run::ProgramOptions options = this->options(program_.mesh());
  options.scratch_of = &program_;
  return {std::move(plan), state_, workers_, options};
}

std::vector<std::string_view> Trainer::changed_by(const plan::Instruction& instruction) const {
  std::vector<std::string_view> names;
  for (const plan::ViewId result : instruction.results) {
    const auto found = state_buffers_.find(plan().view(result).buffer);
    if (found != state_buffers_.end()) names.push_back(found->second);
  }
  return names;
}

void Trainer::clear_moments() {
  for (const Trained& trained : parameters()) {
    if (trained.moments > 0) state_->clear(trained.mu());
    if (trained.moments > 1) state_->clear(trained.nu());
  }
}

void Trainer::go_on_after(std::int64_t step) {
  lost_.clear();
  steps_done_ = step + 1;
}

Placed Trainer::state(const std::string& name) const {
  Placed value = program_.state(name);
  if (!value) refuse("the model has no such parameter", name);
  if (lost_.contains(name)) {
    fail("the parameters and moments are lost: the step that was changing them did not end", name,
         "set every parameter again, or start anew");
  }
  return value;
}

void Trainer::set_parameter(const std::string& path, Array value) {
  const auto trained = std::find_if(parameters().begin(), parameters().end(), [&](const Trained& t) { return t.path == path; });
  if (trained == parameters().end()) refuse("the model has no such parameter", path);
  if (trained->shape != value.view.shape) {
    refuse(fmt::format("shape {}, {} was expected", to_string(value.view.shape), to_string(trained->shape)), path);
  }
  if (trained->dtype != value.view.dtype) {
    refuse(fmt::format("values of {}, {} was expected", name_of(value.view.dtype), name_of(trained->dtype)), path);
  }
  for (const std::string& name : {path, trained->mu(), trained->nu()}) lost_.erase(name);
  state_->put(path, value);
  if (trained->moments > 0) state_->clear(trained->mu());
  if (trained->moments > 1) state_->clear(trained->nu());
}

StepResults Trainer::run_step(const Batch& batch, run::Observers observers) {
  if (!lost_.empty()) state(*lost_.begin());
  const StepNumbers numbers = numbers_of(steps_done_);
  feeding_.feed(program_, batch, numbers, *pool_);
  std::vector<double> sent;
  lost_.insert(state_names_.begin(), state_names_.end());
  observers.sent = &sent;
  program_.run(observers);
  lost_.clear();
  StepResults results = read(numbers);
  recent_.add(results.metrics.loss, results.metrics.grad_norm, results.metrics.is_left_out);
  sum_sent(sent);
  // Without regions that exchange rows, what travels for the experts is not told from the rest.
  if (std::all_of(sent.begin(), sent.end(), [](double bytes) { return bytes == 0; })) sent.clear();
  results.metrics.load.sent = std::move(sent);
  ++steps_done_;
  return results;
}

// Each process only knows what its own devices sent.
void Trainer::sum_sent(std::vector<double>& sent) const {
  if (company_.count() == 1 || program_.output(step_results::expert_load).shards.empty()) return;
  const std::vector<std::int64_t> sums = company_.processes->sums({sent.begin(), sent.end()}, "at the end of a step");
  sent.assign(sums.begin(), sums.end());
}

StepResults Trainer::read(const StepNumbers& numbers) const {
  const auto result = [&](const std::string& name) { return program_.output(name); };
  StepResults results;
  StepMetrics& metrics = results.metrics;
  metrics.step = steps_done_;
  metrics.learning_rate = learning_rate(settings_, numbers.update);
  metrics.loss = scalar(result(step_results::loss));
  metrics.lm_loss = scalar(result(step_results::lm_loss));
  metrics.total_weights = scalar(result(step_results::positions));
  metrics.raw_grad_norm = scalar(result(update_results::raw_grad_norm));
  metrics.grad_norm = scalar(result(update_results::grad_norm));
  metrics.param_norm = scalar(result(update_results::param_norm));
  metrics.is_left_out = scalar(result(update_results::applied)) == 0;
  if (recent_.are_watched()) metrics.limits = numbers.limits;
  if (const Placed z_loss = result(models::results::z_loss)) metrics.z_loss = scalar(z_loss);
  if (const Placed balance = result(models::results::balance_loss)) metrics.balance_loss = scalar(balance);
  if (const Placed mtp = result(models::results::mtp_loss)) metrics.mtp_loss = scalar(mtp);
  if (settings_.boolean("use_indexer")) {
    const Placed index = result(models::results::index_loss);
    metrics.index_loss = index ? scalar(index) : 0;
  }
  if (const Placed highest = result(step_results::max_logits)) metrics.max_logits = scalar(highest);
  if (const Placed load = result(step_results::expert_load)) {
    results.loads = along_first(whole(load));
    for (const Array& of_microbatch : results.loads) add_load(of_microbatch, metrics.load);
  }
  results.logits = result(step_results::logits);
  if (const Placed factor = result(step_results::gradient_factor)) {
    results.gradient_factor = scalar(factor);
    for (const Trained& trained : parameters()) results.gradients.push_back(result(step_results::gradient(trained.path)));
  }
  return results;
}

Array Trainer::logits(const StepResults& results) const { return feeding_.as_given(whole(results.logits), *pool_); }

// Processes see only the values of their own devices, and must not end a run before the others do: each of them says what it found,
// and the earliest of these is returned.
std::string Trainer::first_not_finite(const Batch& batch, std::int64_t step) {
  std::optional<std::int64_t> found;  // the number of instructions after which it was found
  std::int64_t seen = 0;
  std::string words;
  for (const Trained& trained : parameters()) {
    if (!words.empty() || is_finite(state(trained.path))) continue;
    found = 0;
    words = "the parameter " + trained.path;
  }
  const auto watch = [&](const plan::Instruction& instruction, const std::vector<Placed>& made) {
    ++seen;
    if (found || std::all_of(made.begin(), made.end(), [](const Placed& value) { return is_finite(value); })) return;
    found = seen;
    words = fmt::format("made by {} at {}", name_of(instruction.op), instruction.path);
  };
  // Stops before parameters and moments are changed.
  const auto is_enough = [&](const plan::Instruction& next) { return (company_.count() == 1 && found) || !changed_by(next).empty(); };
  feeding_.feed(program_, batch, numbers_of(step), *pool_);
  program_.run({.watch = watch, .ends_before = is_enough});
  std::pair<std::int64_t, std::string> first{std::numeric_limits<std::int64_t>::max(), "not found when the step is run again"};
  for (const std::string& said :
       company_.all_say(found ? fmt::format("{} {}", *found, words) : "", "at the search for what is not finite")) {
    const std::size_t blank = said.find(' ');
    if (blank != std::string::npos)
      first = std::min(first, std::pair{parse_integer(said.substr(0, blank)).value_or(0), said.substr(blank + 1)});
  }
  return first.second;
}

void initialize(Trainer& trainer, const graph::Graph& model, std::int64_t seed, backend::Workers& workers) {
  const std::shared_ptr<run::Pool> pool = run::Pool::create();  // released with all buffers that it keeps
  put_initial_values(model, seed, *pool, workers,
                     [&](const std::string& path, Array value) { trainer.set_parameter(path, std::move(value)); });
}

}  // namespace moesh::train
