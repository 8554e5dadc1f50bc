#include "cli/planned.h"

#include <fmt/core.h>

#include "base/error.h"
#include "session/reopen.h"
#include "train/loop.h"

namespace moesh::cli {
namespace {

using Keys = std::vector<std::string>;

Planned plan_opened(session::Session session) {
  const config::Settings& settings = session.loaded.settings;
  train::StepProgram program = train::step_program(session.graph, settings, {session.layout, session.target});
  const std::int64_t length = settings.integer("max_target_length");
  const std::int64_t tokens = session.batch.rows_to_train * length;
  const train::ModelSize size = train::model_size(session.graph, session.shape, tokens, length);
  forecast::Forecast made =
      forecast::forecast(program.plan, session.layout, session.target, {static_cast<double>(tokens), size.step_flops});
  return {std::move(session), std::move(program), std::move(made)};
}

// The same batch in more passes, and smaller ones.
void add_batches(const config::Settings& settings, std::vector<Keys>& tries) {
  const double batch = settings.real("per_device_batch_size");
  const std::int64_t steps = settings.integer("gradient_accumulation_steps");
  const bool saves_more = settings.text("remat_policy") != "full";
  for (const std::int64_t parts : {2, 4, 8}) {
    const std::string fewer_rows = fmt::format("per_device_batch_size={:g}", batch / static_cast<double>(parts));
    const std::string more_passes = fmt::format("gradient_accumulation_steps={}", steps * parts);
    tries.push_back({fewer_rows, more_passes});
    if (saves_more) tries.push_back({"remat_policy=full", fewer_rows, more_passes});
    tries.push_back({fewer_rows});
  }
}

// Machines of the same kind with more devices, over which parameters are spread.
void add_larger_machines(const Planned& planned, std::vector<Keys>& tries) {
  const config::Settings& settings = planned.session.loaded.settings;
  const std::string& name = planned.session.target.name;
  const std::size_t number = name.find_last_not_of("0123456789") + 1;
  if (settings.text("compile_topology").empty() || number >= name.size()) return;
  const std::int64_t size = std::stoll(name.substr(number));
  const std::int64_t fsdp = settings.integer("ici_fsdp_parallelism");
  for (const std::int64_t times : {2, 4, 8}) {
    Keys keys{fmt::format("compile_topology={}{}", name.substr(0, number), size * times)};
    if (fsdp > 0) keys.push_back(fmt::format("ici_fsdp_parallelism={}", fsdp * times));
    tries.push_back(std::move(keys));
  }
}

}  // namespace

Planned plan_step(const std::vector<std::string>& request) { return plan_opened(session::open(request)); }

std::vector<Change> changes_to_fit(const std::vector<std::string>& request, const Planned& planned) {
  const config::Settings& settings = planned.session.loaded.settings;
  std::vector<Keys> tries;
  if (settings.text("remat_policy") != "full") tries.push_back({"remat_policy=full"});
  add_batches(settings, tries);
  add_larger_machines(planned, tries);
  std::vector<Change> changes;
  for (const Keys& keys : tries) {
    std::vector<std::string> changed = request;
    changed.insert(changed.end(), keys.begin(), keys.end());
    try {
      const Planned made = plan_opened(session::reopen(changed));
      changes.push_back({keys, made.forecast.memory.peak, made.forecast.fits()});
    } catch (const Error&) {
      continue;  // no such machine, or a batch that its axes do not divide
    }
  }
  return changes;
}

}  // namespace moesh::cli
