#include "train/reference_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <sys/stat.h>

#include <fmt/core.h>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "base/whole_file.h"

namespace moesh::train {
namespace {

constexpr std::int64_t kMostJson = 64 << 20;

bool is_file(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

Json read_json(const std::string& path) {
  return parse_json(read_file(path, "the description of a run", kMostJson, "name the folder of a recorded run, or a layout's .json"), path);
}

std::vector<ReferenceStep> curve_of(const Json& json, const std::string& path) {
  if (!json.is_array() || json.empty()) refuse("a list of steps was expected", path);
  std::vector<ReferenceStep> curve;
  for (const Json& entry : json) {
    const auto step = member<std::int64_t>(entry, "step", path);
    if (step != static_cast<std::int64_t>(curve.size())) {
      refuse(fmt::format("step {} stands where step {} was expected", step, curve.size()), path,
             "a curve has every step once, in order, from 0 on");
    }
    curve.push_back({step, member<double>(entry, "loss", path),
                     member<double>(entry, "lm_loss", path), member<double>(entry, "moe_lb_loss", path),
                     member<double>(entry, "raw_grad_norm", path), member<double>(entry, "param_norm", path)});
  }
  return curve;
}

std::string parent_of(const std::string& folder) {
  const std::size_t slash = folder.find_last_of('/');
  return slash == std::string::npos ? "." : folder.substr(0, slash);
}

std::string name_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

void add_words(const Json& set, std::vector<std::string>& request) {
  for (const auto& [key, value] : set.items()) request.push_back(key + "=" + word_of(value));
}

// Numbers of the first step, which curve.json has as well.
constexpr std::array<std::string_view, 2> kNumbers{"loss", "raw_grad_norm"};

// The kinds of tensors in a file of expected results. Refuses a file with any other tensor, as nothing would compare it.
std::set<std::string> kinds_in(const store::TensorFile& expect, std::int64_t steps) {
  std::set<std::string> kinds;
  for (const auto& [name, tensor] : expect.tensors) {
    const std::string kind = name.substr(0, name.find('.'));
    const std::int64_t step = kind.starts_with("step") ? parse_integer(kind.substr(4)).value_or(0) : 0;
    const bool is_step = step > 0 && step <= steps;
    const bool is_number = std::find(kNumbers.begin(), kNumbers.end(), name) != kNumbers.end() && elements(tensor.shape) == 1;
    const bool is_known = name == "logits" || is_number || name.starts_with("router.");
    if (!is_known && (name == kind || (kind != "grad" && !is_step))) {
      refuse(fmt::format("'{}' is nothing that is compared", name), expect.path,
             fmt::format("it may hold logits, loss, raw_grad_norm, grad.PATH, stepN.PATH with N from 1 to {}, and router.N.WHAT", steps));
    }
    kinds.insert(kind);
  }
  return kinds;
}

// The steps of the run that its curve lacks, in words. A curve longer than the run is refused.
std::string steps_behind(const std::vector<ReferenceStep>& curve, const Json& set, const std::string& path) {
  const auto recorded = static_cast<std::int64_t>(curve.size());
  const std::int64_t run = set.contains("steps") && holds<std::int64_t>(set["steps"]) ? set["steps"].get<std::int64_t>() : recorded;
  if (run < recorded)
    refuse(fmt::format("{}, config.json says that {} were run", counted(recorded, "step"), run), path, "record the run again");
  return run == recorded ? "" : fmt::format("steps {} to {}", recorded, run - 1);
}

// Checks that everything is there that config.json says was recorded.
void check_promises(const ReferenceRun& run, const Json& config, const std::string& folder) {
  if (!config.contains("tensors")) return;
  for (const auto& kind : member<std::vector<std::string>>(config, "tensors", folder + "/config.json")) {
    if (run.kept.contains(kind)) continue;
    refuse(fmt::format("config.json says that '{}' was recorded, it is not there", kind), folder + "/expect.safetensors",
           "record the run again, or take it out of config.json's 'tensors'");
  }
}

ReferenceRun read_folder(const std::string& folder) {
  const std::string config_path = folder + "/config.json";
  const Json config = read_json(config_path);
  ReferenceRun run;
  run.name = name_of(folder);
  run.request.push_back("model_name=" + member<std::string>(config, "model_name", config_path));
  add_words(member<Json>(config, "set", config_path), run.request);
  run.devices = member<std::int64_t>(config, "devices", config_path);
  const bool own = is_file(folder + "/params.safetensors");
  const std::string from = own ? folder : parent_of(folder) + "/" + member<std::string>(config, "params_from", config_path);
  run.parameters = store::read_safetensors(from + "/params.safetensors");
  run.batch = store::read_safetensors(folder + "/batch.safetensors");
  run.curve = curve_of(read_json(folder + "/curve.json"), folder + "/curve.json");
  run.unrecorded = steps_behind(run.curve, config["set"], folder + "/curve.json");
  if (is_file(folder + "/expect.safetensors")) {
    run.expect = store::read_safetensors(folder + "/expect.safetensors");
    run.kept = kinds_in(run.expect, static_cast<std::int64_t>(run.curve.size()));
    if (run.kept.empty()) refuse("no tensor is in it", run.expect.path, "take the file away, or record the run again");
  }
  run.why_none = "not recorded";
  check_promises(run, config, folder);
  return run;
}

// The curve that a layout has to follow: its own, another layout's, or that of one device.
std::vector<ReferenceStep> expected_curve(const Json& layout, const std::string& path, const std::string& models) {
  const auto expect = member<std::string>(layout, "expect", path);
  if (expect == "recorded curve") {
    if (!layout.contains("curve_from")) return curve_of(member<Json>(layout, "curve", path), path);
    const std::string other = parent_of(path) + "/" + member<std::string>(layout, "curve_from", path) + ".json";
    return curve_of(member<Json>(read_json(other), "curve", other), other);
  }
  if (expect != "one device") refuse(fmt::format("'expect' is '{}', 'recorded curve' or 'one device' was expected", expect), path);
  const Json with = member<Json>(layout, "compared_with", path);
  if (with.is_object()) return curve_of(member<Json>(with, "curve", path), path);
  const std::string curve = models + "/" + member<std::string>(layout, "compared_with", path) + "/curve.json";
  return curve_of(read_json(curve), curve);
}

bool follow_each_other(const std::vector<ReferenceStep>& a, const std::vector<ReferenceStep>& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!(std::abs(a[i].loss - b[i].loss) <= 1e-5 * std::abs(b[i].loss))) return false;
  }
  return true;
}

// A layout of a recorded model, which is in models/ beside the layout's own folder.
ReferenceRun read_layout(const std::string& path) {
  const Json layout = read_json(path);
  const std::string models = parent_of(parent_of(path)) + "/models";
  ReferenceRun run = read_folder(models + "/" + member<std::string>(layout, "model", path));
  run.name = name_of(path.substr(0, path.size() - std::string(".json").size()));
  add_words(member<Json>(layout, "set", path), run.request);
  run.devices = member<std::int64_t>(layout, "devices", path);
  if (layout.contains("batch")) run.batch = store::read_safetensors(parent_of(path) + "/" + member<std::string>(layout, "batch", path));
  std::vector<ReferenceStep> curve = expected_curve(layout, path, models);
  // If the layout should change nothing, the model's tensors are expected of it too.
  if (layout.contains("batch") || !follow_each_other(curve, run.curve)) {
    run.kept.clear();
    run.why_none = "the layout's numbers are not those of its model";
  }
  run.curve = std::move(curve);
  run.unrecorded.clear();
  return run;
}

}  // namespace

std::string dotted(std::string path) {
  std::replace(path.begin(), path.end(), '/', '.');
  return path;
}

ReferenceRun read_reference_run(const std::string& given) {
  std::string path = given;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.ends_with(".json") ? read_layout(path) : read_folder(path);
}

}  // namespace moesh::train
