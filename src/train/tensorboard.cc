#include "train/tensorboard.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "store/png.h"
#include "train/expert_shades.h"
#include "train/scalars.h"

namespace moesh::train {
namespace {

using Message = store::ProtobufWriter;

// Field numbers, from TensorFlow's event.proto and summary.proto.
namespace field {
constexpr int step = 2, summary = 5, session = 7;                               // of an event
constexpr int status = 1;                                                       // of a session
constexpr int value = 1;                                                        // of a summary
constexpr int tag = 1, simple = 2, image = 4, histogram = 5, tensor = 8, metadata = 9;  // of a value
constexpr int plugin = 1, plugin_name = 1;                                      // of metadata
constexpr int dtype = 1, text = 8;                                              // of a tensor
constexpr int height = 1, width = 2, colors = 3, encoded = 4;                   // of an image
constexpr int min = 1, max = 2, count = 3, sum = 4, squares = 5, limits = 6, counts = 7;  // of a histogram
}  // namespace field

constexpr std::int64_t kStart = 1, kTexts = 7, kGrey = 1;

class Summary {
 public:
  Summary& scalar(const std::string& name, double number) {
    return add(Message().bytes(field::tag, name).real32(field::simple, static_cast<float>(number)));
  }
  Summary& text(const std::string& name, const std::string& words) {
    const Message metadata = Message().message(field::plugin, Message().bytes(field::plugin_name, "text"));
    const Message tensor = Message().integer(field::dtype, kTexts).bytes(field::text, words);
    return add(Message().bytes(field::tag, name).message(field::tensor, tensor).message(field::metadata, metadata));
  }
  Summary& histogram(const std::string& name, std::vector<double> numbers) {
    std::sort(numbers.begin(), numbers.end());
    constexpr int kBuckets = 30;
    const double low = numbers.front(), high = numbers.back(), width = std::max((high - low) / kBuckets, 1e-12);
    std::vector<double> limits(kBuckets), counts(kBuckets);
    for (int i = 0; i < kBuckets; ++i) limits[static_cast<std::size_t>(i)] = low + width * (i + 1);
    double sum = 0, squares = 0;
    for (const double number : numbers) {
      counts[static_cast<std::size_t>(std::clamp((number - low) / width, 0.0, kBuckets - 1.0))] += 1;
      sum += number;
      squares += number * number;
    }
    Message made;
    made.real(field::min, low).real(field::max, high).real(field::count, static_cast<double>(numbers.size()));
    made.real(field::sum, sum).real(field::squares, squares).reals(field::limits, limits).reals(field::counts, counts);
    return add(Message().bytes(field::tag, name).message(field::histogram, made));
  }
  Summary& image(const std::string& name, const std::vector<std::uint8_t>& shades, std::int64_t width) {
    Message made;
    made.integer(field::height, static_cast<std::int64_t>(shades.size()) / width).integer(field::width, width);
    made.integer(field::colors, kGrey);
    made.bytes(field::encoded, store::png_of(shades, width));
    return add(Message().bytes(field::tag, name).message(field::image, made));
  }
  const Message& message() const { return message_; }

 private:
  Summary& add(const Message& value) {
    message_.message(field::value, value);
    return *this;
  }
  Message message_;
};

// The entropy of a layer's load as a share of that of an even load: 1 if all experts of the layer have the same number of tokens.
double evenness(const ExpertLoad& load, std::int64_t layer) {
  const auto first = load.tokens.begin() + layer * load.experts;
  double sum = 0, entropy = 0;
  for (auto at = first; at != first + load.experts; ++at) sum += *at;
  for (auto at = first; at != first + load.experts; ++at) {
    if (*at > 0) entropy -= *at / sum * std::log(*at / sum);
  }
  return load.experts > 1 ? entropy / std::log(static_cast<double>(load.experts)) : 1;
}

// One line per layer, one column per expert.
std::vector<std::uint8_t> picture_of(const ExpertLoad& load) {
  std::vector<std::uint8_t> shades;
  for (std::int64_t layer = 0; layer < load.layers(); ++layer) {
    const auto experts = static_cast<std::size_t>(load.experts);
    const std::vector<std::uint8_t> line =
        expert_shades(std::span(load.tokens).subspan(static_cast<std::size_t>(layer) * experts, experts));
    shades.insert(shades.end(), line.begin(), line.end());
  }
  return shades;
}

void add_load(Summary& summary, const ExpertLoad& load) {
  double dropped = 0, even = 1;
  for (std::int64_t layer = 0; layer < load.layers(); ++layer) {
    even = std::min(even, evenness(load, layer));
    dropped += load.dropped[static_cast<std::size_t>(layer)];
  }
  summary.scalar("experts/busiest_over_mean", load.max_over_mean()).scalar("experts/load_entropy", even).scalar("experts/dropped", dropped);
  summary.histogram("experts/tokens", load.tokens).image("experts/load", picture_of(load), load.experts);
}

std::string table_of(const config::Settings& settings) {
  std::string words = "| key | value |\n|---|---|\n";
  for (const auto& [key, value] : config::given_settings(settings)) words += fmt::format("| {} | {} |\n", key, value);
  return words;
}

}  // namespace

TensorBoard::TensorBoard(const std::string& folder, std::int64_t first_step, std::int64_t parameters, const config::Settings& settings)
    : file_(folder) {
  file_.add(Message().integer(field::step, first_step).message(field::session, Message().integer(field::status, kStart)));
  add(Summary().text("num_model_parameters", std::to_string(parameters)).text("settings", table_of(settings)).message(), first_step);
}

void TensorBoard::write(const StepMetrics& m, const StepSpeed& speed) {
  Summary summary;
  for (const auto& [name, number] : scalars_of(m, speed)) summary.scalar(std::string(name), number);
  if (m.load.experts > 0 && m.load.layers() > 0) add_load(summary, m.load);
  add(summary.message(), m.step);
}

void TensorBoard::write(const EvalMetrics& m) {
  Summary summary;
  for (const auto& [name, number] : scalars_of(m)) summary.scalar(std::string(name), number);
  summary.scalar("eval/step_time_seconds", m.seconds / static_cast<double>(m.batches));
  add(summary.message(), m.step);
}

// The curves only show the run, so a failure to write them does not end it.
void TensorBoard::add(const store::ProtobufWriter& summary, std::int64_t step) {
  if (is_given_up_) return;
  try {
    file_.add(Message().integer(field::step, step).message(field::summary, summary));
  } catch (const Error& error) {
    log_notice(fmt::format("nothing more is written for TensorBoard: {}", error.what()));
    is_given_up_ = true;
  }
}

}  // namespace moesh::train
