#include "train/metrics_file.h"


#include "base/json.h"
#include "base/log.h"
#include "base/system.h"
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

constexpr std::string_view kSignature = R"({"run": {"moesh": ")";

std::string path_of(const config::Settings& settings) {
  const std::string& given = settings.text("metrics_file");
  return given.empty() ? make_run_folder(settings) + "/metrics.jsonl" : given;
}

// The line before a run's steps, by which our files are known and runs in one file are told apart.
std::string run_line(const config::Settings& settings) {
  JsonWriter json;
  json.begin_object().key("run").begin_object().key("moesh").value(MOESH_VERSION).key("began").value(local_time("%Y-%m-%dT%H:%M:%S%z"));
  json.key("settings").begin_object();
  for (const config::Topic& topic : config::topics()) {
    for (const config::Key& key : topic.keys) {
      if (key.status == config::Status::used && settings.is_given(key.name))
        json.key(key.name).value(config::to_string(settings.value(key.name)));
    }
  }
  return json.end_object().end_object().end_object().text();
}

}  // namespace

MetricsFile::MetricsFile(const config::Settings& settings) : file_(path_of(settings), kSignature) {
  if (file_.had_lines()) log_notice(file_.path() + " has lines of earlier runs; those of this one follow");
  file_.append(run_line(settings));
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
  file_.append(json.text());
}

}  // namespace moesh::train
