#include "train/loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text.h"
#include "partition/collectives.h"
#include "train/data.h"
#include "train/initialize.h"
#include "train/interrupts.h"
#include "train/metrics_file.h"
#include "train/notes.h"
#include "train/trainer.h"

namespace moesh::train {
namespace {

using Clock = std::chrono::steady_clock;

bool is_expert(const std::string& path) {
  return path.ends_with("/wi_0") || path.ends_with("/wi_1") || path.ends_with("/wo") || path.ends_with("_bias");
}

std::int64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("MemAvailable:")) continue;
    const auto words = split(trim(std::string_view(line).substr(13)), ' ');
    return parse_integer(words.front()).value_or(0) * 1024;
  }
  return 0;
}

// What the plan says of this process, against what the machine has.
void check_memory(const StepFootprint& needed) {
  const std::int64_t available = available_bytes();
  if (available == 0 || needed.peak.process < available) return;
  refuse(fmt::format("{} of memory are needed at the peak, {} are free", human_bytes(static_cast<double>(needed.peak.process)),
                     human_bytes(static_cast<double>(available))),
         "the machine", "a smaller model, a smaller per_device_batch_size or a shorter max_target_length");
}

std::int64_t steps_to_train(const config::Settings& settings) {
  const std::int64_t steps = settings.integer("steps");
  const std::int64_t of_schedule = settings.integer("learning_rate_schedule_steps");
  if (steps < 0 && of_schedule < 0) {
    refuse("steps=-1 stands for learning_rate_schedule_steps, which is -1 too", settings.origin("steps").where,
           "give one of them");
  }
  return steps < 0 ? of_schedule : steps;
}

// What the experts of the last step had to do, and what that cost on the wire.
std::string load_words(const ExpertLoad& load, double planned_bytes) {
  double worst = 0, dropped = 0, choices = 0;
  for (std::int64_t layer = 0; layer < load.layers(); ++layer) worst = std::max(worst, load.max_over_mean(layer));
  for (const double d : load.dropped) dropped += d;
  for (const double t : load.tokens) choices += t;
  std::string words = fmt::format("Experts in the last step: the busiest of a layer had {:.2f} times the mean; {:.0f} of {:.0f} choices "
                                  "dropped", worst, dropped, choices);
  if (load.sent.empty()) return words + ".\n";
  const auto [least, most] = std::minmax_element(load.sent.begin(), load.sent.end());
  return words + fmt::format("; sent to and from them {} to {} a device, {} with an even router.\n", human_bytes(*least), human_bytes(*most),
                             human_bytes(planned_bytes));
}

// Bytes that a device sends in regions, as planned.
double planned_in_regions(const StepPrograms& programs) {
  double bytes = 0;
  for (const partition::Collective& collective : partition::collectives_of(programs.gradients, programs.mesh)) {
    if (collective.in_region) bytes += collective.total_wire_bytes();
  }
  return bytes * static_cast<double>(programs.microbatches);
}

// The reference's line, which scripts read.
std::string step_line(const StepMetrics& m, double seconds, const ModelSize& size, std::int64_t tokens, const TrainRequest& request) {
  const auto devices = static_cast<double>(request.devices);
  std::string line = fmt::format(
      "completed step: {}, seconds: {:.3f}, TFLOP/s/device: {:.3f}, Tokens/s/device: {:.3f}, total_weights: {:.0f}, "
      "loss: {:.3f}, lm_loss: {:.3f}, perplexity: {:.3f}",
      m.step, seconds, size.step_flops / seconds / devices / 1e12, static_cast<double>(tokens) / seconds / devices,
      m.total_weights, m.loss, m.lm_loss, std::exp(m.lm_loss));
  if (request.shape.is_moe()) line += fmt::format(", moe_lb_loss: {:.6f}", m.balance_loss);
  return line;
}

// What is not finite ends the run or is left out of it, and is traced to the first tensor that went bad.
void report_not_finite(Trainer& trainer, const StepMetrics& metrics, const Batch& batch, const config::Settings& settings) {
  const std::string what = std::isfinite(metrics.loss) ? fmt::format("the gradient norm of step {} is {}", metrics.step, metrics.raw_grad_norm)
                                                       : fmt::format("the loss of step {} is {}", metrics.step, metrics.loss);
  const std::string report = fmt::format("{}; the first value that is not finite is {}", what, trainer.first_not_finite(batch));
  if (settings.text("non_finite_policy") == "skip_step") {
    log_notice(report + "; its update is left out");
    return;
  }
  const double number = std::isfinite(metrics.loss) ? metrics.raw_grad_norm : metrics.loss;
  const char* key = std::isnan(number) ? "abort_on_nan_loss" : "abort_on_inf_loss";
  if (settings.boolean(key)) {
    fail(report, "training", "lower learning_rate, look at the data of this step, or non_finite_policy=skip_step");
  }
}

}  // namespace

ModelSize model_size(const graph::Graph& model, const config::ModelShape& shape, std::int64_t tokens,
                     std::int64_t length) {
  ModelSize size;
  std::int64_t multiplied = 0;  // parameters that a token is multiplied with
  for (const graph::Node& node : model.nodes) {
    if (node.op != graph::Op::parameter) continue;
    const std::int64_t count = elements(model.value(node.results.front()).shape);
    const bool expert = shape.is_moe() && is_expert(node.path);
    const std::int64_t active = expert ? count / shape.moe.experts * shape.moe.experts_per_token : count;
    size.parameters += count;
    size.active += active;
    if (!node.path.ends_with("/embedding") || shape.tied_embedding) multiplied += active;
  }
  const config::AttentionShape& attention = shape.attention;
  const double scores = static_cast<double>(shape.layers * attention.query_heads *
                                            (attention.qk_head_dim() + attention.value_head_dim()));
  // Half of the positions of a row are seen by a token on average.
  const double seen = 0.5 * static_cast<double>(length);
  size.step_flops = 6.0 * static_cast<double>(tokens) * (static_cast<double>(multiplied) + scores * seen);
  return size;
}

int train(const TrainRequest& request, run::Workers& workers) {
  const config::Settings& settings = request.settings;
  const std::int64_t length = settings.integer("max_target_length");
  const std::int64_t tokens = request.batch.rows_to_train * length;
  const ModelSize size = model_size(request.model, request.shape, tokens, length);
  const std::int64_t steps = steps_to_train(settings);
  const auto source = open_source(settings, request.batch.rows_to_load);
  StepPrograms programs = step_programs(request.model, settings, request.where);
  const StepFootprint footprint = footprint_of(programs);
  check_memory(footprint);
  const double planned_bytes = planned_in_regions(programs);
  MetricsFile metrics_file(settings);
  Trainer trainer(std::move(programs), settings, workers);
  initialize(trainer, request.model, settings.integer("init_weights_seed"), workers);
  say_what_is_asked(settings);
  fmt::print("{}\n{} parameters, {} active; {} rows of {} tokens a step from {}\n", request.headline,
             human_count(static_cast<double>(size.parameters)), human_count(static_cast<double>(size.active)),
             request.batch.rows_to_train, length, source->describe());
  fmt::print("a device: {} of parameters and moments, {} at the peak; this process, equal shards once: {}\n\n",
             human_bytes(static_cast<double>(footprint.state_of_device)), human_bytes(static_cast<double>(footprint.peak.device)),
             human_bytes(static_cast<double>(footprint.peak.process)));
  const Interrupts interrupts;
  Progress progress("step", steps);
  double first_loss = 0;
  double last_loss = 0;
  ExpertLoad last_load;
  const auto begin = Clock::now();
  std::int64_t step = 0;
  for (; step < steps && !interrupts.asked(); ++step) {
    const auto start = Clock::now();
    const Batch batch = make_batch(*source, step, request.batch.rows_to_load, request.batch.rows_to_train, length,
                                   request.shape.vocab_size, trainer.pool());
    const StepMetrics metrics = trainer.step(batch);
    if (!std::isfinite(metrics.loss) || !std::isfinite(metrics.raw_grad_norm)) report_not_finite(trainer, metrics, batch, settings);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    metrics_file.write(metrics, seconds);
    progress.print(step_line(metrics, seconds, size, tokens, request));
    progress.advance(step + 1, fmt::format("loss {:.3f}", metrics.loss));
    if (step == 0) first_loss = metrics.loss;
    last_loss = metrics.loss;
    last_load = metrics.load;
  }
  const bool is_interrupted = step < steps;
  const double total = std::chrono::duration<double>(Clock::now() - begin).count();
  fmt::print("\n{}{} steps in {:.1f} s, {:.0f} tokens/s; loss {:.3f} -> {:.3f}; peak {} of values.\n{}Metrics: {}\n",
             is_interrupted ? "interrupted: " : "", step, total, static_cast<double>(tokens * step) / total, first_loss,
             last_loss, human_bytes(static_cast<double>(trainer.pool().peak_bytes())),
             last_load.experts > 0 ? load_words(last_load, planned_bytes) : "", metrics_file.path());
  if (!request.next.empty()) fmt::print("\nNext:\n{}", request.next);
  return is_interrupted ? interrupts.exit_code() : 0;
}

}  // namespace moesh::train
