#include "config/batch_words.h"

#include <bit>
#include <cmath>

#include <fmt/core.h>

#include "base/json.h"
#include "base/text.h"

namespace moesh::config {
namespace {

constexpr std::int64_t kMostParts = 64;
constexpr std::int64_t kMostHalves = 16;  // parts of a row, or of rows that these parts do not divide

std::int64_t microbatches_of(const BatchSizes& batch) { return batch.rows_to_train / batch.micro_rows; }

double rows_a_device(const BatchSizes& batch, std::int64_t devices) {
  return static_cast<double>(batch.rows_to_train) / static_cast<double>(devices);
}

}  // namespace

std::string batch_words(const BatchSizes& batch, std::int64_t length, std::int64_t devices) {
  std::string words = fmt::format("{} of {} a step, {:.4g} a device", counted(batch.rows_to_train, "row"), counted(length, "token"),
                                  rows_a_device(batch, devices));
  const std::int64_t microbatches = microbatches_of(batch);
  if (microbatches > 1)
    words += fmt::format(", in {} of {}", with_commas(microbatches) + " microbatches", counted(batch.micro_rows, "row"));
  if (batch.rows_to_load > batch.rows_to_train)
    words += fmt::format(", the first of {} that are loaded", counted(batch.rows_to_load, "row"));
  return words;
}

std::string batch_json(const BatchSizes& batch, std::int64_t length, std::int64_t devices) {
  JsonWriter json;
  json.begin_object().key("rows").value(batch.rows_to_train).key("rows_loaded").value(batch.rows_to_load);
  json.key("rows_per_device").value(rows_a_device(batch, devices)).key("microbatches").value(microbatches_of(batch));
  json.key("rows_of_a_microbatch").value(batch.micro_rows).key("tokens_of_a_row").value(length);
  json.key("tokens").value(batch.rows_to_train * length).end_object();
  return json.text();
}

// A quotient that is rounded down would make a row fewer.
double rows_a_device(std::int64_t rows, std::int64_t devices) {
  const auto all = static_cast<double>(devices);
  const double quotient = static_cast<double>(rows) / all;
  return quotient * all < static_cast<double>(rows) ? std::nextafter(quotient, quotient + 1) : quotient;
}

std::string batch_key(double rows_a_device) { return fmt::format("per_device_batch_size={}", rows_a_device); }

std::vector<std::int64_t> parts_of_rows(double rows_a_device) {
  std::vector<std::int64_t> all;
  for (std::int64_t parts = 2; parts <= kMostParts; ++parts) {
    const bool divides = std::fmod(rows_a_device, static_cast<double>(parts)) == 0;
    if (divides || (parts <= kMostHalves && std::has_single_bit(static_cast<std::uint64_t>(parts)))) all.push_back(parts);
  }
  return all;
}

Keys in_passes(const Settings& settings, std::int64_t parts) {
  return {batch_key(settings.real("per_device_batch_size") / static_cast<double>(parts)),
          fmt::format("gradient_accumulation_steps={}", settings.integer("gradient_accumulation_steps") * parts)};
}

}  // namespace moesh::config
