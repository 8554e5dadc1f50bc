#include "measure/calibration.h"

#include <cmath>
#include <map>

#include <fmt/core.h>

#include "base/text.h"
#include "forecast/timing.h"

namespace moesh::measure {
namespace {

constexpr double kPointsAnOctave = 2;

// Sums over samples that had about the same work.
struct Sum {
  double work = 0, seconds = 0, count = 0;
};

std::string quoted_for_yaml(std::string_view text) {
  std::string made = "'";
  for (const char c : text) made += std::string(c == '\'' ? 2 : 1, c);
  return made + "'";
}

std::string points_text(const std::vector<mesh::TimedWork>& points) {
  std::vector<std::string> words;
  for (const mesh::TimedWork& point : points) words.push_back(fmt::format("[{:.4g}, {:.4g}]", point.work, point.seconds));
  return "[" + join(words, ", ") + "]";
}

}  // namespace

std::vector<Sample> samples_of(const plan::Plan& plan, std::span<const run::Span> spans) {
  const std::vector<forecast::Task> tasks = forecast::tasks_of(plan);
  std::vector<Sample> samples;
  for (const run::Span& span : spans) {
    const forecast::Task& task = tasks[static_cast<std::size_t>(span.instruction)];
    if (task.name.empty() || task.work <= 0) continue;
    samples.push_back({task.name, task.otherwise, task.work, (span.end - span.begin) / task.times});
  }
  return samples;
}

mesh::MeasuredTimes points_of(std::span<const Sample> samples) {
  std::map<std::string, std::map<long, Sum>> sums;
  for (const Sample& sample : samples) {
    for (const std::string* name : {&sample.name, &sample.otherwise}) {
      Sum& sum = sums[*name][std::lround(kPointsAnOctave * std::log2(sample.work))];
      sum.work += sample.work;
      sum.seconds += sample.seconds;
      ++sum.count;
    }
  }
  mesh::MeasuredTimes times;
  for (const auto& [name, by_work] : sums) {
    for (const auto& [size, sum] : by_work) times[name].push_back({sum.work / sum.count, sum.seconds / sum.count});
  }
  return times;
}

std::string hardware_file(const MachineFacts& facts, const MachineRates& rates, const mesh::MeasuredTimes& times) {
  std::string text = fmt::format(
      "# Written by `moesh doctor --calibrate`. Devices share the machine: the rates are those of all its threads together, and\n"
      "# `measured` holds what training steps took, [FLOPs or bytes, seconds], by which steps on virtual devices are predicted.\n"
      "title: {}\n"
      "source: {}\n"
      "bf16_flops_per_second: {:.4g}\n"
      "fp8_flops_per_second: null\n"
      "f32_flops_per_second: {:.4g}\n"
      "int8_flops_per_second: null\n"
      "matrix_tile: 16\n"
      "memory_bytes: {}\n"
      "memory_bytes_per_second: {:.4g}\n"
      "links:\n"
      "  - {{kind: memory, domain: all, bytes_per_second: {:.4g}, latency_seconds: 1e-6}}\n"
      "sizes:\n"
      "  most: 4096\n"
      "measured:\n",
      quoted_for_yaml(facts.title), quoted_for_yaml(fmt::format("measured on {}, with {}", facts.date, counted(facts.threads, "thread"))),
      rates.bfloat16.large, rates.float32.large, facts.memory_bytes, rates.stream, rates.stream / 2);
  for (const auto& [name, points] : times) text += fmt::format("  {}: {}\n", name, points_text(points));
  return text;
}

}  // namespace moesh::measure
