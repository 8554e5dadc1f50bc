#include "decode/source.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "base/rounding.h"
#include "base/text.h"
#include "config/hugging_face.h"
#include "config/keys.h"
#include "config/schema.h"
#include "store/newest.h"

namespace moesh::decode {
namespace {

constexpr const char* kOfTexts = "dataset_type=text";  // what tokenizers are of

bool says_devices(const std::string& word) {
  return word.starts_with("ici_") || word.starts_with("dcn_") || word.starts_with("compile_topology") || word.starts_with("num_slices=");
}

std::vector<std::string> settings_of(const std::string& model) {
  if (config::is_hugging_face(model)) {
    return {kOfTexts, "model_name=" + model, "tokenizer_path=" + config::hugging_face_folder(model)};
  }
  const store::Index index = store::newest_index(model);
  const std::map<std::string, std::string> settings(index.about.settings.begin(), index.about.settings.end());
  const bool has_rule_set = settings.contains("custom_mesh_and_rule");
  std::vector<std::string> request{kOfTexts};
  for (const auto& [key, value] : settings) {
    if (is_gone_on_with(key) && !(has_rule_set && key == "logical_axis_rules")) request.push_back(key + "=" + value);
  }
  return request;
}

// The key of key=value; nothing of a file's name.
const config::Key* key_of(const std::string& word) {
  const std::size_t equals = word.find('=');
  return equals == std::string::npos ? nullptr : config::find_key(word.substr(0, equals));
}

}  // namespace

Source source_of(const std::string& model, const config::Keys& settings) {
  Source source{model, settings};
  std::string weights;
  for (const std::string& word : settings) {
    if (word.starts_with(kWeights)) weights = word.substr(kWeights.size());
  }
  std::erase_if(source.settings, [&](const std::string& word) { return word.starts_with(kWeights); });
  if (model.empty() && weights.empty())
    refuse("which model?", kCommandLine, "name a run, a checkpoint or a Hugging Face folder, or give load_parameters_path=PATH");
  if (!model.empty() && !weights.empty()) {
    refuse(fmt::format("weights of {}, and of load_parameters_path={}", shorten(model, 80), shorten(weights, 80)), kCommandLine,
           "name one of them");
  }
  if (model.empty()) source.model = weights;
  return source;
}

void note_idle(const config::Keys& settings) {
  std::vector<std::string> keys;
  for (const std::string& word : settings) {
    const config::Key* key = key_of(word);
    if (key != nullptr && key->status == config::Status::used && config::topic_of(*key).is_of_training) keys.emplace_back(key->name);
  }
  if (!keys.empty()) log_notice("without effect on texts, as only training reads them: " + few_of(keys));
}

bool is_gone_on_with(const std::string& name) {
  const config::Key* key = config::find_key(name);
  return key != nullptr && config::is_kept_on_texts(*key);
}

void check_ids(const tokenizer::Ids& ids, std::int64_t vocabulary, std::string_view where) {
  const auto other = std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) { return id < 0 || id >= vocabulary; });
  if (other == ids.end()) return;
  refuse(fmt::format("token {} lies outside the vocabulary of {}", *other, vocabulary), std::string(where),
         "use the tokenizer of this model");
}

config::Keys request_of(const std::string& model, const config::Keys& words, const config::Keys& usual) {
  config::Keys request, given;
  for (const std::string& word : words) (word.find('=') == std::string::npos ? request : given).push_back(word);  // a file comes first
  request = config::joined(config::joined(std::move(request), settings_of(model)), usual);
  if (!std::any_of(given.begin(), given.end(), says_devices)) request.emplace_back("compile_topology=cpu-1");
  return config::joined(std::move(request), given);
}

std::int64_t rows_for(const session::Session& session, std::optional<std::int64_t> asked, std::int64_t usual) {
  const bool has_batch = session.loaded.settings.is_by_user("per_device_batch_size");
  if (asked && has_batch) log_notice(fmt::format("per_device_batch_size is without effect beside --batch {}", *asked));
  if (asked) return *asked;
  if (has_batch) return session.batch.micro_rows;
  const std::int64_t devices = session.mesh.devices();
  return round_up(usual, devices);
}

std::int64_t slots_of(const config::Settings& settings, std::int64_t longest) {
  constexpr const char *kLength = "max_target_length", *kPositions = "max_position_embeddings";
  const std::int64_t length = settings.integer(kLength), slots = std::min(longest, length), positions = settings.integer(kPositions);
  if (slots <= positions || !config::is_hugging_face(settings.text("model_name"))) return slots;
  if (!settings.is_by_user(kLength)) return positions;
  log_notice(fmt::format("{}={} goes beyond the {}={} that the model is meant for", kLength, length, kPositions, positions));
  return slots;
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
