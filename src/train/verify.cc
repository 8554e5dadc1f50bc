#include "train/verify.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/core.h>

#include "base/bfloat16.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/text.h"
#include "models/model.h"
#include "train/batches.h"
#include "train/comparison.h"

namespace moesh::train {
namespace {

using run::Array;

// float32: sums of thousands of terms are added in another order. bfloat16: about twice the distance of MaxText's own bfloat16 runs
// from their float32 twins, over llama3.1, qwen3-moe, gpt-oss, deepseek2 and deepseek3 with a capacity: at most 1.6e-3 in a loss,
// 5e-3 in a norm, 1.8e-2 in logits, 1.6e-2 in parameters and 1.7e-1 in a tensor's gradient, where tokens change their expert.
struct Tolerances {
  double loss, norms, logits, gradients, parameters;
};

Tolerances tolerances_of(const config::Settings& settings) {
  const auto is_rounded = [&](const char* key) { return settings.text(key) == "bfloat16"; };
  if (is_rounded("dtype") || is_rounded("weight_dtype") || is_rounded("grad_dtype")) return {4e-3, 1e-2, 4e-2, 3e-1, 3e-2};
  return {1e-5, 1e-4, 1e-4, 1e-4, 1e-4};
}

Array array_of(const store::StoredTensor& stored, run::Pool& pool) {
  Array array = pool.allocate(stored.shape, stored.type.dtype);
  for (std::int64_t i = 0; stored.type.encoding != store::Encoding::plain && i < array.view.count(); ++i) {
    const double value = stored.value(static_cast<std::size_t>(i));
    if (stored.type.dtype == DType::int32) array.as<std::int32_t>()[i] = static_cast<std::int32_t>(value);
    else array.as<float>()[i] = static_cast<float>(value);
  }
  if (stored.type.encoding == store::Encoding::plain) copy_bytes(array.view.data, stored.data, stored.bytes);
  return array;
}

// A bfloat16 run may have started from the parameters of its float32 twin, which are rounded here.
Array array_of(const store::StoredTensor& stored, DType dtype, run::Pool& pool) {
  if (stored.type.dtype == dtype || dtype != DType::bfloat16) return array_of(stored, pool);
  const std::vector<double> values = stored.values();
  Array array = pool.allocate(stored.shape, dtype);
  for (std::size_t i = 0; i < values.size(); ++i) array.as<bfloat16>()[i] = bfloat16(static_cast<float>(values[i]));
  return array;
}

// The token of two [rows, length, vocabulary] arrays whose values are furthest apart.
std::string furthest_token(const std::vector<double>& a, const std::vector<double>& b, const Shape& shape) {
  const auto width = static_cast<std::size_t>(shape[2]);
  std::size_t furthest = 0;
  double most = -1;
  for (std::size_t token = 0; token * width < a.size(); ++token) {
    double distance = 0;
    for (std::size_t i = token * width; i < (token + 1) * width; ++i) distance += (a[i] - b[i]) * (a[i] - b[i]);
    if (distance <= most) continue;  // a NaN gets past this, and counts as furthest
    most = distance;
    furthest = token;
    if (std::isnan(distance)) break;
  }
  const auto length = static_cast<std::size_t>(shape[1]);
  return fmt::format("step 0, row {}, position {}", furthest / length, furthest % length);
}

Batch batch_of(const ReferenceRun& run, const config::BatchSizes& sizes, run::Pool& pool) {
  Batch batch;
  for (const char* name : kOfRows) {
    Array& rows = batch[name] = array_of(run.batch.at(name), pool);
    if (!rows.view.shape.empty() && rows.view.shape[0] == sizes.rows_to_load) rows.view.shape[0] = sizes.rows_to_train;
  }
  const Shape& shape = batch.at(models::inputs::tokens).view.shape;
  if (shape.size() == 2) batch[models::inputs::order] = places_in_rows(shape[0], shape[1], pool);
  return batch;
}

// If logits read the tied table rounded to bfloat16, its gradient is rounded as well, for each device and microbatch separately.
bool has_rounded_gradient(const Trained& trained, const config::Settings& settings) {
  return trained.role == graph::Role::embedding && settings.boolean("logits_via_embedding") && settings.boolean("round_tied_embedding");
}
constexpr double kRoundedGradient = 4e-3;
constexpr const char* kTable = "gradient of the tied table";

using Values = std::vector<double>;
using Distance = std::function<double(const std::string& path, const Values& mine, const Values& theirs)>;

// Compares every tensor whose name in the file is `prefix` followed by a parameter's path.
Verdict compare_all(const std::string& quantity, double tolerance, const Trainer& trainer, const store::TensorFile& expect,
                    const std::string& prefix, const Distance& distance, const std::function<Array(std::size_t)>& ours,
                    const std::function<bool(const Trained&)>& takes = {}) {
  Worst worst(quantity, tolerance);
  for (std::size_t i = 0; i < trainer.parameters().size(); ++i) {
    if (takes && !takes(trainer.parameters()[i])) continue;
    const std::string& path = trainer.parameters()[i].path;
    const store::StoredTensor& stored = expect.at(prefix + dotted(path));
    const Array mine = ours(i);
    if (mine.view.shape != stored.shape) {
      refuse(fmt::format("shape {}, the run recorded {}", to_string(mine.view.shape), to_string(stored.shape)), path);
    }
    worst.see(distance(path, values_of(mine), stored.values()), path);
  }
  return worst.verdict();
}

// By how much of a step two versions of an element may differ that Adam updates by this gradient: it divides gradients by their size, so
// rounding errors weigh more the smaller a gradient is beside that of all parameters, whose norm is `whole`. Those of a bias that softmax
// cancels are only rounding errors.
Values doubts(const Values& gradient, double whole) {
  constexpr double kRounding = 1e-7;
  Values made;
  for (const double slope : gradient) made.push_back(std::abs(slope) < kRounding * whole ? 1 : kRounding * whole / std::abs(slope));
  return made;
}

// Of two versions of an updated parameter, `path` being how far all its steps lead at most.
double updated_distance(Values mine, const Values& theirs, const Values& doubts, double path) {
  for (std::size_t i = 0; i < doubts.size(); ++i) {
    const double difference = mine[i] - theirs[i];
    if (std::isnan(difference)) continue;
    // Where the gradient is only rounding errors, the two may have gone the whole way in opposite directions.
    const double allowed = doubts[i] == 1 ? 2 * path : doubts[i] * path;
    const double beyond = std::max(0.0, std::abs(difference) - allowed);
    mine[i] = theirs[i] + std::copysign(beyond, difference);
  }
  return relative_distance(mine, theirs);
}

// Findings that begin with the quantities that the run did not keep.
Findings not_kept(const ReferenceRun& run) {
  std::string missing;
  const auto add = [&](bool is_kept, const char* quantity) {
    if (!is_kept) missing += (missing.empty() ? "" : ", ") + std::string(quantity);
  };
  add(run.kept.contains("logits"), "logits");
  add(run.kept.contains("grad"), "gradients");
  add(std::any_of(run.kept.begin(), run.kept.end(), [](const std::string& kind) { return kind.starts_with("step"); }), "parameters");
  Findings findings;
  if (!missing.empty()) findings.unheld.push_back({missing, run.why_none});
  if (!run.unrecorded.empty()) findings.unheld.push_back({run.unrecorded, "not recorded"});
  for (const std::string& kind : run.kept) {
    const auto steps = kind.starts_with("step") ? parse_integer(kind.substr(4)) : std::nullopt;
    if (steps && *steps > static_cast<std::int64_t>(run.curve.size())) {
      findings.unheld.push_back({"parameters after " + counted(*steps, "step"), "it is not followed so far"});
    }
  }
  if (run.kept.contains("router")) findings.unheld.push_back({"routers' scores and choices", "a step does not hand them out"});
  return findings;
}

void compare_logits(const ReferenceRun& run, const Array& made, double tolerance, Findings& findings) {
  const store::StoredTensor& recorded = run.expect.at("logits");
  if (made.view.shape != recorded.shape) {
    findings.unheld.push_back(
        {"logits", fmt::format("{} were recorded, {} are made", to_string(recorded.shape), to_string(made.view.shape))});
    return;
  }
  Worst logits("logits", tolerance);
  const std::vector<double> mine = values_of(made);
  const std::vector<double> theirs = recorded.values();
  logits.see(relative_distance(mine, theirs), furthest_token(mine, theirs, made.view.shape));
  findings.verdicts.push_back(logits.verdict());
}

void compare_gradients(const ReferenceRun& run, Trainer& trainer, const StepResults& made, const config::Settings& settings,
                       double tolerance, std::vector<Verdict>& verdicts) {
  const auto ours = [&](std::size_t i) { return gradient_of(trainer, made, i, trainer.pool()); };
  const Distance distance = [&](const std::string&, const Values& mine, const Values& theirs) {
    return gradient_distance(mine, theirs, run.curve.front().raw_grad_norm);
  };
  const auto is_rounded = [&](const Trained& trained) { return has_rounded_gradient(trained, settings); };
  const auto is_exact = [&](const Trained& trained) { return !trained.is_beside && !is_rounded(trained); };
  verdicts.push_back(compare_all("gradients", tolerance, trainer, run.expect, "grad.", distance, ours, is_exact));
  if (std::any_of(trainer.parameters().begin(), trainer.parameters().end(), is_rounded)) {
    const double of_table = std::max(tolerance, kRoundedGradient);
    verdicts.push_back(compare_all(kTable, of_table, trainer, run.expect, "grad.", distance, ours, is_rounded));
  }
}

// `kind`: what the names of the run's parameters after these steps begin with.
Verdict compare_parameters(const ReferenceRun& run, const Trainer& trainer, const std::string& kind, const config::Settings& settings,
                           double tolerance) {
  const Distance distance = [&](const std::string& path, const Values& mine, const Values& theirs) {
    const std::string gradient = "grad." + dotted(path);
    Values doubt;
    if (run.expect.has(gradient)) doubt = doubts(run.expect.at(gradient).values(), run.curve.front().raw_grad_norm);
    return updated_distance(mine, theirs, doubt, settings.real("learning_rate") * static_cast<double>(trainer.steps_done()));
  };
  return compare_all(fmt::format("parameters after {}", counted(trainer.steps_done(), "step")), tolerance, trainer, run.expect, kind + ".",
                     distance, [&](std::size_t i) { return trainer.parameter(trainer.parameters()[i].path); });
}

}  // namespace

Findings verify(const ReferenceRun& run, const Subject& subject, backend::Workers& workers) {
  const config::Settings& settings = subject.settings;
  const Tolerances tolerances = tolerances_of(settings);
  const Keep keep{run.kept.contains("logits"), run.kept.contains("grad")};
  Trainer trainer(step_program(subject.model, settings, subject.where, keep), settings, workers);
  for (const Trained& trained : trainer.parameters()) {
    trainer.set_parameter(trained.path, array_of(run.parameters.at(dotted(trained.path)), trained.dtype, trainer.pool()));
  }
  const Batch batch = batch_of(run, subject.batch, trainer.pool());
  Worst loss("loss", tolerances.loss);
  Worst balance("balance loss", tolerances.norms);
  Worst norms("gradient norms", tolerances.norms);
  Worst sizes("parameter norms", tolerances.parameters);
  Findings findings = not_kept(run);
  std::vector<Verdict>& verdicts = findings.verdicts;
  Progress progress(run.name + ", step", static_cast<std::int64_t>(run.curve.size()));
  for (const ReferenceStep& recorded : run.curve) {
    const StepResults made = trainer.run_step(batch);
    const std::string step = fmt::format("step {}", recorded.step);
    loss.see(relative(made.metrics.loss, recorded.loss), step);
    if (recorded.step == 0) {
      const auto see = [&](const char* name, double mine, Worst& worst) {
        if (run.kept.contains(name)) worst.see(relative(mine, run.expect.at(name).values().front()), step + ", as a tensor");
      };
      see("loss", made.metrics.loss, loss);
      see("raw_grad_norm", made.metrics.raw_grad_norm, norms);
    }
    if (recorded.step == 0 && keep.logits) compare_logits(run, trainer.logits(made), tolerances.logits, findings);
    if (recorded.step == 0 && keep.gradients) compare_gradients(run, trainer, made, settings, tolerances.gradients, verdicts);
    balance.see(relative(made.metrics.balance_loss, recorded.balance_loss), step);
    norms.see(relative(made.metrics.raw_grad_norm, recorded.raw_grad_norm), step);
    sizes.see(relative(made.metrics.param_norm, recorded.param_norm), step);
    if (const std::string kind = fmt::format("step{}", trainer.steps_done()); run.kept.contains(kind))
      verdicts.push_back(compare_parameters(run, trainer, kind, settings, tolerances.parameters));
    progress.advance(trainer.steps_done());
  }
  verdicts.insert(verdicts.begin(), {loss.verdict(), balance.verdict(), norms.verdict(), sizes.verdict()});
  return findings;
}

std::vector<Verdict> verify_against(const Subject& one_device, const Subject& layout, std::int64_t steps, backend::Workers& workers) {
  const Tolerances tolerances = tolerances_of(layout.settings);
  const Keep keep{true, true};
  Trainer expected(step_program(one_device.model, one_device.settings, one_device.where, keep), one_device.settings, workers);
  Trainer made(step_program(layout.model, layout.settings, layout.where, keep), layout.settings, workers);
  const std::int64_t seed = layout.settings.integer("init_weights_seed");
  initialize(expected, one_device.model, seed, workers);
  initialize(made, layout.model, seed, workers);
  // Both take the rows that the layout loads.
  Batches batches(layout.settings, layout.batch, layout.settings.integer("vocab_size"), workers.threads());
  Worst loss("loss", tolerances.loss);
  Worst balance("balance loss", tolerances.norms);
  Worst logits("logits", tolerances.logits);
  Worst gradients("gradients", tolerances.gradients), table(kTable, std::max(tolerances.gradients, kRoundedGradient));
  Worst parameters(fmt::format("parameters after {}", counted(steps, "step")), tolerances.parameters);
  std::vector<Values> doubts_of;  // the elements of each parameter, by their first gradient
  Progress progress("step", steps);
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::string where = fmt::format("step {}", step);
    const Batch batch = batches.at(step, made.pool());
    const StepResults a = expected.run_step(batch);
    const StepResults b = made.run_step(batch);
    loss.see(relative(b.metrics.loss, a.metrics.loss), where);
    balance.see(relative(b.metrics.balance_loss, a.metrics.balance_loss), where);
    if (step == 0) {
      logits.see(relative_distance(values_of(made.logits(b)), values_of(expected.logits(a))), where);
      for (std::size_t i = 0; i < made.parameters().size(); ++i) {
        const Trained& of = made.parameters()[i];
        Worst& worst = has_rounded_gradient(of, layout.settings) ? table : gradients;
        const Values gradient = values_of(gradient_of(expected, a, i, expected.pool()));
        const double whole = a.metrics.raw_grad_norm;
        worst.see(gradient_distance(values_of(gradient_of(made, b, i, made.pool())), gradient, whole), of.path);
        doubts_of.push_back(doubts(gradient, whole));
      }
    }
    progress.advance(step + 1);
  }
  for (std::size_t i = 0; i < made.parameters().size(); ++i) {
    const std::string& path = made.parameters()[i].path;
    const double most = layout.settings.real("learning_rate") * static_cast<double>(steps);
    parameters.see(updated_distance(values_of(made.parameter(path)), values_of(expected.parameter(path)), doubts_of[i], most), path);
  }
  std::vector<Verdict> verdicts{loss.verdict(), balance.verdict(), logits.verdict(), gradients.verdict(), parameters.verdict()};
  if (const Verdict of = table.verdict(); !of.worst.empty()) verdicts.insert(verdicts.end() - 1, of);
  return verdicts;
}

}  // namespace moesh::train
