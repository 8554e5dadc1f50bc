#include "decode/source.h"

#include <algorithm>
#include <map>
#include <span>

#include "base/rounding.h"
#include "base/whole_file.h"
#include "config/hugging_face.h"
#include "config/keys.h"
#include "config/schema.h"
#include "store/folder.h"
#include "store/index.h"

namespace moesh::decode {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
constexpr const char* kOfTexts = "dataset_type=text";  // what tokenizers are of

bool says_devices(const std::string& word) {
  return word.starts_with("ici_") || word.starts_with("dcn_") || word.starts_with("compile_topology") || word.starts_with("num_slices=");
}

std::vector<std::string> settings_of(const std::string& model) {
  if (config::is_hugging_face(model)) {
    return {kOfTexts, "model_name=" + model, "tokenizer_path=" + config::hugging_face_folder(model)};
  }
  const std::string path = store::checkpoints_at(model).front() + "/index.json";
  const store::Index index = store::parse_index(read_file(path, "the index", kMostBytes, ""), path);
  const std::map<std::string, std::string> settings(index.about.settings.begin(), index.about.settings.end());
  const bool has_rule_set = settings.contains("custom_mesh_and_rule");
  std::vector<std::string> request{kOfTexts};
  for (const auto& [key, value] : settings) {
    if (is_gone_on_with(key) && !(has_rule_set && key == "logical_axis_rules")) request.push_back(key + "=" + value);
  }
  return request;
}

}  // namespace

bool is_gone_on_with(const std::string& name) {
  if (name == "model_name" || name == "override_model_config" || name == "max_target_length" || name == "backend") return true;
  const std::span<const config::Topic> topics = config::topics();
  return std::any_of(topics.begin(), topics.end(), [&](const config::Topic& topic) {
    return (topic.is_of_models || topic.is_of_texts) &&
           std::any_of(topic.keys.begin(), topic.keys.end(), [&](const config::Key& key) { return key.name == name; });
  });
}

std::vector<std::string> request_of(const std::string& model, const std::vector<std::string>& words) {
  std::vector<std::string> request = settings_of(model);
  if (!std::any_of(words.begin(), words.end(), says_devices)) request.emplace_back("compile_topology=cpu-1");
  return config::joined(std::move(request), words);
}

std::int64_t rows_for(const session::Session& session, std::int64_t wanted) {
  if (session.loaded.settings.is_by_user("per_device_batch_size")) return session.batch.micro_rows;
  const std::int64_t devices = session.mesh.devices();
  return round_up(wanted, devices);
}

Bounds bounds_of(const tokenizer::Tokenizer& tokenizer, const config::Settings& settings) {
  Bounds bounds;
  const std::string& model = settings.text("model_name");
  const bool is_folder = config::is_hugging_face(model);
  bounds.as_tokenizer = is_folder && !settings.is_by_user("add_bos");
  if (!bounds.as_tokenizer && settings.boolean("add_bos") && tokenizer.begin_id) bounds.begin = {*tokenizer.begin_id};
  if (is_folder) bounds.ends = config::hugging_face_ends(model);
  if (tokenizer.end_id && std::find(bounds.ends.begin(), bounds.ends.end(), *tokenizer.end_id) == bounds.ends.end())
    bounds.ends.push_back(*tokenizer.end_id);
  return bounds;
}

tokenizer::Ids prompt_ids(const tokenizer::Tokenizer& tokenizer, const Bounds& bounds, std::string_view prompt) {
  using tokenizer::Special;
  tokenizer::Ids ids = tokenizer.encode(prompt, bounds.as_tokenizer ? Special::added : Special::left_out);
  while (bounds.as_tokenizer && !ids.empty() && tokenizer.end_id && ids.back() == *tokenizer.end_id) ids.pop_back();
  ids.insert(ids.begin(), bounds.begin.begin(), bounds.begin.end());
  return ids;
}

}  // namespace moesh::decode
