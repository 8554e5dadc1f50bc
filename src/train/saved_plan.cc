#include "train/saved_plan.h"

#include <algorithm>
#include <array>

#include "plan/compare.h"

namespace moesh::train {
namespace {

// Keys about the run itself, such as its name and folder, which no plan depends on.
constexpr std::array<std::string_view, 6> kOfTheRun{"run_name", "base_output_directory", "log_config", "metrics_file", "plan", "steps"};

bool is_of_the_run(std::string_view key) { return std::find(kOfTheRun.begin(), kOfTheRun.end(), key) != kOfTheRun.end(); }

}  // namespace

plan::Origin origin_of(const config::Settings& settings, const mesh::Topology& target) {
  plan::Origin origin{target.name, target.slices, {}};
  for (const config::Topic& topic : config::topics()) {
    if (topic.scope == config::Scope::runs) continue;
    for (const config::Key& key : topic.keys) {
      if (key.status != config::Status::used || settings.is_default(key.name) || is_of_the_run(key.name)) continue;
      origin.settings.emplace_back(key.name, to_string(settings.value(key.name)));
    }
  }
  return origin;
}

void check_saved_plan(const StepProgram& program, const config::Settings& settings, const mesh::Topology& target) {
  const std::string& path = settings.text("plan");
  if (!path.empty()) plan::check_same(plan::load(path), program.plan, origin_of(settings, target), path);
}

}  // namespace moesh::train
