#include "train/recorded_model.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include <fmt/core.h>

#include "base/error.h"
#include "config/hugging_face.h"
#include "config/yaml.h"

namespace moesh::train {
namespace {

std::vector<std::int32_t> ids_of(const store::StoredTensor& tensor) {
  std::vector<std::int32_t> ids;
  for (const double value : tensor.values()) ids.push_back(static_cast<std::int32_t>(value));
  return ids;
}

std::vector<RecordedPrompt> prompts_of(const store::TensorFile& expect) {
  constexpr std::string_view kBefore = "greedy.", kAfter = ".prompt";
  std::vector<RecordedPrompt> prompts;
  for (const auto& [name, tensor] : expect.tensors) {
    if (!name.starts_with(kBefore) || !name.ends_with(kAfter)) continue;
    const std::string stem = name.substr(0, name.size() - kAfter.size());
    prompts.push_back({stem.substr(kBefore.size()), ids_of(tensor), ids_of(expect.at(stem + ".tokens")),
                       expect.at(stem + ".logits").values()});
  }
  return prompts;
}

std::map<std::string, double> norms_of(const config::YamlNode& file, const std::string& path) {
  const config::YamlNode* norms = file.find("grad_norms");
  if (norms == nullptr) refuse("'grad_norms' is missing", path, "record the model again");
  std::map<std::string, double> all;
  for (const config::YamlNode& norm : norms->items)
    all.emplace(norm.key, config::yaml_real(norm, "the norm of a gradient"));
  return all;
}

// Five times the largest difference that was recorded of two ways through the library, which grows with a model's depth.
double logits_tolerance_of(const config::YamlNode& file) {
  double tolerance = 1e-4;
  if (const config::YamlNode* noise = file.find("noise")) {
    for (const config::YamlNode& of_way : noise->items)
      tolerance = std::max(tolerance, 5 * config::yaml_real(of_way, "a difference of logits"));
  }
  return tolerance;
}

}  // namespace

RecordedModel read_recorded_model(const std::string& path) {
  RecordedModel recorded;
  const std::string folder = config::hugging_face_folder(path);
  recorded.name = std::filesystem::path(std::filesystem::absolute(folder).lexically_normal() / "")
                      .parent_path()
                      .filename()
                      .string();
  recorded.path = path;
  recorded.expect = store::read_safetensors(folder + "/expect.safetensors");
  // Read as YAML, which includes JSON: some writers of JSON spell infinite margins in a way that JSON itself does not allow.
  const std::string expected = folder + "/expect.json";
  const config::YamlNode file = config::read_yaml(expected);
  recorded.gradient_norms = norms_of(file, expected);
  recorded.logits_tolerance = logits_tolerance_of(file);
  const store::StoredTensor& ids = recorded.expect.at("input_ids");
  if (ids.shape.size() != 2)
    refuse(fmt::format("input_ids are {}, rows of tokens were expected", to_string(ids.shape)), recorded.expect.path);
  recorded.rows = ids.shape[0];
  recorded.length = ids.shape[1];
  recorded.ids = ids_of(ids);
  recorded.prompts = prompts_of(recorded.expect);
  recorded.request = {"model_name=" + path, "dtype=float32", "weight_dtype=float32",
                      fmt::format("max_target_length={}", recorded.length)};
  return recorded;
}

std::int64_t rows_on(const RecordedModel& recorded, std::int64_t devices) { return std::lcm(recorded.rows, devices); }

}  // namespace moesh::train
