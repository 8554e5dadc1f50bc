#include "config/data_kind.h"

namespace moesh::config {
namespace {

bool has_own_validation(const Settings& settings) {
  return settings.integer("eval_interval") > 0 && !settings.text("eval_dataset_path").empty();
}

}  // namespace

bool is_synthetic(const Settings& settings) { return settings.text("dataset_type") == "synthetic"; }

bool has_documents(const Settings& settings) {
  const std::string& type = settings.text("dataset_type");
  return type == "jsonl" || type == "megatron";
}

bool reads_files(const Settings& settings) {
  const std::string& type = settings.text("dataset_type");
  return type == "text" || type == "tokens" || has_documents(settings);
}

bool has_tokenizer(const Settings& settings) {
  const std::string& type = settings.text("dataset_type");
  const bool trains = settings.boolean("tokenize_train_data");
  const bool evaluates = has_own_validation(settings) && settings.boolean("tokenize_eval_data");
  return (type == "text" || type == "jsonl") && (trains || evaluates) && !settings.text("tokenizer_path").empty();
}

}  // namespace moesh::config
