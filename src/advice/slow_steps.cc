#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "advice/checks.h"
#include "advice/factorings.h"
#include "advice/fit.h"
#include "advice/in_turns.h"
#include "advice/remedies.h"
#include "base/text.h"
#include "sharding/lint_checks.h"

namespace moesh::advice {
namespace {

using sharding::Check;
using sharding::Finding;
using sharding::Severity;

constexpr double kShareWorthSaying = 0.5;  // of a step, in which kernels wait
constexpr double kShareOfExchange = 0.1;  // of a step, in which kernels wait for the experts' tokens
constexpr std::size_t kMostNamed = 3;

// Meshes with devices moved from one axis to another, within slices or between them, over which the model and the batch divide evenly.
void try_moves(const session::Session& session, mesh::AxisIndex from, mesh::AxisIndex to, mesh::Level level, std::vector<Keys>& tries) {
  const mesh::Mesh& mesh = session.mesh;
  const std::int64_t size = mesh.axis(from).size_at(level);
  for (std::int64_t times = 2; times <= size; ++times) {
    if (size % times != 0) continue;
    const mesh::Mesh other = mesh::with_moved(mesh, from, to, times, level);
    if (!takes_rows(session.layout, other, session.batch.micro_rows) || !state_on(session, other)) continue;
    tries.push_back(mesh::keys_between(mesh, other));
  }
}

// Other axis sizes, experts first, as weights that tokens are sent to need not be gathered.
std::vector<Keys> ways_to_wait_less(const session::Session& session) {
  const mesh::Mesh& mesh = session.mesh;
  std::vector<Keys> tries;
  for (const mesh::AxisIndex to : sharding::axes_to_try(mesh, {"expert", "fsdp", "data", "tensor"}, session.shape.is_moe())) {
    for (mesh::AxisIndex from = 0; from < mesh.axes().size(); ++from) {
      if (from == to) continue;
      for (const mesh::Level level : {mesh::Level::ici, mesh::Level::dcn}) try_moves(session, from, to, level, tries);
    }
  }
  return tries;
}

std::string most_waited_for(const forecast::Forecast& forecast) {
  std::map<std::string, double> seconds;
  for (const forecast::Sent& sent : forecast.collectives)
    seconds[fmt::format("{} over {} for {}", sent.kind, sent.axes, sent.cause)] += sent.exposed;
  std::vector<std::pair<std::string, double>> sorted(seconds.begin(), seconds.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  if (sorted.size() > kMostNamed) sorted.resize(kMostNamed);
  std::vector<std::string> words;
  for (const auto& [name, waited] : sorted) words.push_back(fmt::format("{}: {}", name, human_seconds(waited)));
  return join(words, "; ");
}

}  // namespace

void find_waits(const StepView& view, std::vector<Finding>& findings) {
  const forecast::Forecast& forecast = view.step.forecast;
  const double share = forecast.exposed / forecast.seconds;
  if (!has_target(view.session) || !forecast.is_of_chips || !forecast.fits() || share < kShareWorthSaying) return;
  Finding f{Severity::warning, Check::waits, "the step",
            fmt::format("kernels wait for communication {:.0f}% of the step, which can be avoided", 100 * share),
            most_waited_for(forecast),
            fmt::format("{} of {} a step", human_seconds(forecast.exposed), human_seconds(forecast.seconds))};
  f.tries = ways_to_wait_less(view.session);
  f.gain = sharding::Gain::much_speed;
  findings.push_back(std::move(f));
}

void find_exposed_exchange(const StepView& view, std::vector<Finding>& findings) {
  const config::MoeShape& moe = view.session.shape.moe;
  const forecast::Forecast& forecast = view.step.forecast;
  if (!has_target(view.session) || !forecast.is_of_chips || !forecast.fits() || !view.session.shape.is_moe()) return;
  double exposed = 0;
  for (const forecast::Sent& sent : forecast.collectives) exposed += sent.what.in_region ? sent.exposed : 0;
  if (moe.overlaps || view.session.shape.batch_parts > 1 || exposed < kShareOfExchange * forecast.seconds) return;
  Finding f{Severity::info, Check::exposed_exchange, "the experts",
            fmt::format("experts wait for tokens {:.0f}% of the step", 100 * exposed / forecast.seconds),
            "num_moe_token_chunks, " + view.session.loaded.settings.origin("num_moe_token_chunks").where,
            fmt::format("{} of {} a step; in chunks or in parts of the batch, some are sent while others are multiplied",
                        human_seconds(exposed), human_seconds(forecast.seconds))};
  f.tries = {{"num_moe_token_chunks=2"}, {"num_moe_token_chunks=4"}};
  for (const std::int64_t parts : {2, 4}) {
    if (Keys keys = in_turns(view.session.layout, parts); !keys.empty()) f.tries.push_back(std::move(keys));
  }
  f.gain = sharding::Gain::speed;
  findings.push_back(std::move(f));
}

void find_many_passes(const StepView& view, std::vector<Finding>& findings) {
  const config::Settings& settings = view.session.loaded.settings;
  const std::int64_t passes = settings.integer("gradient_accumulation_steps");
  if (!has_target(view.session) || !view.step.forecast.is_of_chips || !view.step.forecast.fits() || passes == 1) return;
  Finding f{Severity::warning, Check::many_passes, "the passes", fmt::format("a step takes {} passes, and need not", passes),
            "gradient_accumulation_steps, " + settings.origin("gradient_accumulation_steps").where,
            "each gathers the weights and reads them, and has few rows for each expert"};
  f.tries = fewer_passes(settings);
  f.gain = sharding::Gain::much_speed;
  findings.push_back(std::move(f));
}

void find_dense_experts(const StepView& view, std::vector<Finding>& findings) {
  const config::MoeShape& moe = view.session.shape.moe;
  const config::Settings& settings = view.session.loaded.settings;
  const bool is_dense = view.session.shape.is_moe() && moe.strategy == config::MoeStrategy::dense && moe.experts > moe.experts_per_token;
  if (!has_target(view.session) || !view.step.forecast.is_of_chips || !is_dense) return;
  Finding f{Severity::warning, Check::dense_experts, "the experts", "every expert computes every token",
            "sparse_matmul=false, " + settings.origin("sparse_matmul").where,
            fmt::format("a token chooses {} of {}, so they do {:.3g} times the work", moe.experts_per_token, counted(moe.experts, "expert"),
                        static_cast<double>(moe.experts) / static_cast<double>(moe.experts_per_token))};
  f.tries = {{"sparse_matmul=true"}, {"capacity_factor=1.25"}};
  f.gain = sharding::Gain::much_speed;
  findings.push_back(std::move(f));
}

void find_wide_products(const StepView& view, std::vector<Finding>& findings) {
  const config::Settings& settings = view.session.loaded.settings;
  if (!has_target(view.session) || !view.step.forecast.is_of_chips || settings.text("dtype") != "float32") return;
  Finding f{Severity::warning, Check::float32_products, "the step", "products are computed in float32, for which the chip is slow",
            "dtype=float32, " + settings.origin("dtype").where, human_seconds(view.step.forecast.seconds) + " a step"};
  f.tries = {{"dtype=bfloat16"}};
  if (!settings.is_default("matmul_precision")) f.tries.push_back({"matmul_precision=default"});
  f.gain = sharding::Gain::much_speed;
  findings.push_back(std::move(f));
}

}  // namespace moesh::advice
