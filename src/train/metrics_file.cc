#include "train/metrics_file.h"

#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "train/run_folder.h"

namespace moesh::train {
namespace {

void write_load(JsonWriter& json, const ExpertLoad& load) {
  json.key("moe").begin_object().key("tokens").begin_array();
  for (std::int64_t layer = 0; layer < load.layers(); ++layer) {
    json.begin_array();
    for (std::int64_t e = 0; e < load.experts; ++e)
      json.value(load.tokens[static_cast<std::size_t>(layer * load.experts + e)]);
    json.end_array();
  }
  json.end_array().key("max_over_mean").begin_array();
  for (std::int64_t layer = 0; layer < load.layers(); ++layer) json.value(load.max_over_mean(layer));
  json.end_array().key("dropped").begin_array();
  for (const double dropped : load.dropped) json.value(dropped);
  json.end_array().key("bytes_sent_by_device").begin_array();
  for (const double bytes : load.sent) json.value(bytes);
  json.end_array().end_object();
}

}  // namespace

MetricsFile::MetricsFile(const config::Settings& settings) {
  path_ = settings.text("metrics_file");
  if (path_.empty()) path_ = run_folder(settings) + "/metrics.jsonl";
  std::error_code error;
  const auto parent = std::filesystem::path(path_).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  file_.open(path_, std::ios::trunc);
  if (!file_) fail("the file cannot be written", path_, "choose base_output_directory or metrics_file");
}

void MetricsFile::write(const StepMetrics& m, double seconds) {
  JsonWriter json;
  json.begin_object()
      .key("step")
      .value(m.step)
      .key("seconds")
      .value(seconds)
      .key("learning_rate")
      .value(m.learning_rate);
  json.key("loss").value(m.loss).key("lm_loss").value(m.lm_loss).key("moe_lb_loss").value(m.balance_loss);
  json.key("total_weights").value(m.total_weights).key("raw_grad_norm").value(m.raw_grad_norm);
  json.key("grad_norm").value(m.grad_norm).key("param_norm").value(m.param_norm);
  if (m.load.experts > 0) write_load(json, m.load);
  json.end_object();
  file_ << json.text() << "\n" << std::flush;
  if (!file_) fail("the metrics could not be written", path_, "is the disk full?");
}

}  // namespace moesh::train
