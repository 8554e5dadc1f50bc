#include "decode/source.h"

#include <algorithm>

#include "base/rounding.h"
#include "base/whole_file.h"
#include "config/hugging_face.h"
#include "config/keys.h"
#include "store/folder.h"
#include "store/index.h"

namespace moesh::decode {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;

bool says_devices(const std::string& word) {
  return word.starts_with("ici_") || word.starts_with("dcn_") || word.starts_with("compile_topology") || word.starts_with("num_slices=");
}

std::vector<std::string> settings_of(const std::string& model) {
  if (config::is_hugging_face(model)) return {"model_name=" + model, "tokenizer_path=" + config::hugging_face_folder(model)};
  const std::string path = store::checkpoints_at(model).front() + "/index.json";
  const store::Index index = store::parse_index(read_file(path, "the index", kMostBytes, ""), path);
  std::vector<std::string> request;
  for (const auto& [key, value] : index.about.settings) {
    if (!says_devices(key)) request.push_back(key + "=" + value);
  }
  return request;
}

}  // namespace

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

tokenizer::Ids prompt_ids(const tokenizer::Tokenizer& tokenizer, const config::Settings& settings, std::string_view prompt) {
  tokenizer::Ids ids = tokenizer.encode(prompt, tokenizer::Special::left_out);
  if (settings.boolean("add_bos") && tokenizer.begin_id) ids.insert(ids.begin(), *tokenizer.begin_id);
  return ids;
}

tokenizer::Ids end_ids(const tokenizer::Tokenizer& tokenizer, bool ignores_end) {
  if (ignores_end || !tokenizer.end_id) return {};
  return {*tokenizer.end_id};
}

}  // namespace moesh::decode
