#include "train/metrics_file.h"

#include <cmath>

#include <fmt/core.h>

#include "base/json.h"
#include "base/log.h"
#include "base/streams.h"
#include "base/system.h"
#include "train/scalars.h"

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
  json.end_array();
  if (!load.sent.empty()) json.key("bytes_sent_by_device").values(load.sent);
  json.end_object();
}

constexpr std::string_view kSignature = R"({"run": {"moesh": ")";

// The line before a run's steps. It marks the file as ours and separates the runs in one file.
std::string run_line(const config::Settings& settings, const std::string& layout) {
  JsonWriter json;
  json.begin_object().key("run").begin_object().key("moesh").value(MOESH_VERSION).key("began").value(local_time());
  if (!layout.empty()) json.key("layout").value(layout);
  json.key("settings").begin_object();
  for (const auto& [key, value] : config::given_settings(settings)) json.key(key).value(value);
  return json.end_object().end_object().end_object().text();
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, bool prints) : file_(path, kSignature), prints_(prints) {
  if (file_.had_lines()) log_notice(file_.path() + " has lines of earlier runs; those of this one follow");
}

void MetricsFile::begin(const config::Settings& settings, const std::string& layout) { append(run_line(settings, layout)); }

void MetricsFile::append(const std::string& line) {
  file_.append(line);
  if (!prints_) return;
  fmt::print("{}\n", line);
  flush_output();
}

void MetricsFile::write(const StepMetrics& m, const StepTime& time, const StepSpeed& speed, std::int64_t lines_left_out) {
  JsonWriter json;
  json.begin_object()
      .key("step")
      .value(m.step)
      .key("seconds")
      .value(time.all)
      .key("data_seconds")
      .value(time.for_data)
      .key("learning_rate")
      .value(m.learning_rate);
  json.key("per_device_tflops_per_sec").value(speed.flops / speed.seconds / 1e12);
  json.key("per_device_tokens_per_sec").value(speed.tokens / speed.seconds);
  json.key("perplexity").value(std::exp(m.lm_loss));
  json.key("loss").value(m.loss).key("lm_loss").value(m.lm_loss).key("moe_lb_loss").value(m.balance_loss);
  if (m.mtp_loss) json.key("mtp_loss").value(*m.mtp_loss);
  if (m.index_loss) json.key("indexer_loss").value(*m.index_loss);
  if (m.max_logits) json.key("max_logits").value(*m.max_logits);
  json.key("total_weights").value(m.total_weights).key("raw_grad_norm").value(m.raw_grad_norm);
  json.key("grad_norm").value(m.grad_norm).key("param_norm").value(m.param_norm);
  if (m.is_left_out) json.key("update_left_out").value(true);
  if (time.for_disk > 0) json.key("checkpoint_seconds").value(time.for_disk);
  if (lines_left_out > 0) json.key("lines_left_out").value(lines_left_out);
  for (const auto& [name, number] : scalars_of(m, speed)) json.key(name).value(number);
  if (m.load.experts > 0) write_load(json, m.load);
  json.end_object();
  append(json.text());
}

void MetricsFile::end(const run::Audit& audit) {
  JsonWriter json;
  json.begin_object().key("run").begin_object().key("ended").value(local_time());
  json.key("planned_memory").value(audit.planned_memory).key("memory").value(audit.memory).key("collectives").begin_array();
  for (const run::AuditLine& line : folded(audit.collectives)) {
    json.begin_object().key("kind").value(graph::name_of(line.kind)).key("where").value(line.path).key("runs").value(line.runs);
    json.key("planned_runs").value(line.planned_runs).key("bytes").value(line.bytes).key("planned_bytes").value(line.planned_bytes);
    json.key("at_most").value(line.is_bound).end_object();
  }
  append(json.end_array().end_object().end_object().text());
}

void MetricsFile::write(const EvalMetrics& m) {
  JsonWriter json;
  json.begin_object().key("eval_step").value(m.step).key("seconds").value(m.seconds).key("batches").value(m.batches);
  for (const auto& [name, number] : scalars_of(m)) json.key(name).value(number);
  append(json.end_object().text());
}

}  // namespace moesh::train
