#include "cli/bench_decode.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/bench_plot.h"
#include "cli/rates_words.h"
#include "cli/times_words.h"
#include "cli/typical_step.h"
#include "decode/decoder.h"
#include "measure/profile.h"
#include "measure/rates.h"
#include "session/session.h"
#include "train/initialize.h"
#include "train/trained.h"

namespace moesh::cli {
namespace {

constexpr std::int64_t kUntimedSteps = 2;  // the first steps touch their memory for the first time

struct MeasuredDecode {
  std::int64_t rows = 0;
  std::int64_t new_tokens = 0;  // new tokens per row in a step: the prompt's length, or one
  double seconds = 0;           // duration of the median step
  double weights = 0;  // bytes of weights that a step reads
  std::vector<measure::KindTime> times;
  measure::MachineRates rates;

  double tokens_per_second() const { return static_cast<double>(rows * new_tokens) / seconds; }
};

// Expected bytes of weights that a step reads: of the experts only those that receive a token, of an untied embedding only the tokens'
// rows.
double weights_read(const graph::Graph& graph, const config::ModelShape& shape, std::int64_t tokens) {
  const double experts = static_cast<double>(std::max<std::int64_t>(1, shape.moe.experts));
  const double of_a_token = static_cast<double>(shape.moe.experts_per_token) / experts;
  const double share = 1 - std::pow(1 - of_a_token, static_cast<double>(tokens));
  double bytes = 0;
  for (const graph::Node& node : graph.nodes) {
    if (node.op != graph::Op::parameter) continue;
    const graph::Role role = std::get<graph::ParameterOf>(node.attributes).role;
    const bool is_looked_up = role == graph::Role::embedding && !shape.tied_embedding;
    const double part = train::is_of_an_expert(role) ? share
                        : is_looked_up               ? std::min(1.0, static_cast<double>(tokens) / static_cast<double>(shape.vocab_size))
                                                     : 1;
    bytes += part * static_cast<double>(graph::bytes_of(graph.value(node.results.front())));
  }
  return bytes;
}

// `count` tokens per row, at positions from `first` on.
decode::NewTokens tokens_from(std::int64_t first, std::int64_t count, std::int64_t rows, std::int64_t vocabulary) {
  decode::NewTokens tokens;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t position = first; position < first + count; ++position) {
      tokens.ids.push_back(static_cast<std::int32_t>((7919 * position + 104'729 * row) % vocabulary));
      tokens.positions.push_back(static_cast<std::int32_t>(position));
      tokens.segments.push_back(1);
    }
  }
  return tokens;
}

MeasuredDecode measure_decoding(const session::Session& session, DecodeStage stage, int threads, bool by_instruction) {
  const config::Settings& settings = session.loaded.settings;
  const std::int64_t rows = session.batch.micro_rows;
  const models::DecodeShape shape = session::decode_shape(settings, stage);
  const std::int64_t slots = shape.cache_slots, new_tokens = shape.new_tokens;
  const std::int64_t asked = timed_steps(settings);
  const bool is_prompt = stage == DecodeStage::prompt;
  const std::int64_t timed = is_prompt ? asked : std::clamp<std::int64_t>(slots - kUntimedSteps, 1, asked);
  backend::Workers workers(threads);
  decode::Decoder decoder(workers, backend::find_backend(settings.text("backend")));
  const decode::Program program = decode::make_program(session::model_request(session, rows), shape, session.target);
  decode::Ready step = decoder.prepare(program);
  train::put_initial_values(program.graph, settings.integer("init_weights_seed"), decoder.pool(), workers,
                            [&](const std::string& path, const run::Array& value) { decoder.set_parameter(path, value); });
  std::vector<Spans> steps;
  Progress progress(is_prompt ? "prompt" : "token", kUntimedSteps + timed);
  for (std::int64_t i = 0; i < kUntimedSteps + timed; ++i) {
    progress.advance(i);
    Spans spans;
    const std::int64_t first = is_prompt ? 0 : std::min(i, slots - 1);
    decoder.keep(step, tokens_from(first, new_tokens, rows, session.shape.vocab_size), {.spans = &spans});
    if (i >= kUntimedSteps) steps.push_back(std::move(spans));
  }
  const Spans middle = middle_of(std::move(steps));
  const plan::Plan& plan = step.run.plan();
  const std::vector<forecast::Timing> timings = forecast::timings_of(plan, cost::Network(session.mesh, session.target));
  return {rows, new_tokens, middle.back().end, weights_read(program.graph, session.shape, rows * new_tokens),
          by_instruction ? measure::times_by_instruction(plan, timings, middle) : measure::times_by_kind(plan, timings, middle),
          measure::measure_rates(workers)};
}

std::string summary_of(const MeasuredDecode& of, DecodeStage stage) {
  const double rate = of.weights / of.seconds;
  const std::string what = stage == DecodeStage::token
                               ? fmt::format("a token of {}", counted(of.rows, "row"))
                               : fmt::format("a prompt of {} for {}", counted(of.new_tokens, "token"), counted(of.rows, "row"));
  return fmt::format("{:.2f} ms {}, {:.1f} tokens/s; {} of weights are read: {} GB/s, {:.0f}% of the copy\n", of.seconds * 1e3, what,
                     of.tokens_per_second(), human_bytes(of.weights), giga(rate), 100 * rate / of.rates.stream) +
         rates_words(of.rates);
}

std::string json_of(const MeasuredDecode& of, DecodeStage stage) {
  JsonWriter json;
  json.begin_object().key("rows").value(of.rows);
  if (stage == DecodeStage::prompt) json.key("tokens_of_prompt").value(of.new_tokens);
  json.key(stage == DecodeStage::token ? "seconds_per_token" : "seconds_per_prompt").value(of.seconds);
  json.key("tokens_per_second").value(of.tokens_per_second()).key("weights_read").value(of.weights);
  json.line().key("machine");
  add(json, of.rates);
  json.line().key("instructions");
  add(json, of.times);
  return json.line().end_object().text();
}

}  // namespace

int bench_decode(const Arguments& arguments, DecodeStage stage) {
  const session::Session session = session::open_model(arguments.request());
  const MeasuredDecode measured = measure_decoding(session, stage, threads_of(arguments), arguments.has("--all"));
  if (arguments.has("--json")) {
    fmt::print("{}\n", json_of(measured, stage));
  } else {
    const int width = terminal_width();
    fmt::print("{}\n{}\n{}", wrapped(session::headline(session) + "\n", width, 2), times_words(measured.times, measured.seconds, width),
               wrapped(summary_of(measured, stage), width, 2));
  }
  draw(arguments, [&] {
    return bars_of(measured.times, measured.seconds,
                   fmt::format("A {}: {:.2f} ms. {}", stage == DecodeStage::token ? "token" : "prompt", measured.seconds * 1e3,
                               session::headline(session)));
  });
  return 0;
}

}  // namespace moesh::cli
