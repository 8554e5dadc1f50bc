#include "models/ahead.h"

#include <fmt/core.h>

#include "models/model.h"

namespace moesh::models {
namespace {

// Moves each value of a row to the place before it; the last becomes 0.
void shift(std::span<std::int32_t> row) {
  for (std::size_t i = 0; i + 1 < row.size(); ++i) row[i] = row[i + 1];
  row.back() = 0;
}

// The same, but 0 where the next place is of another document, and where there is no document. MaxText shifts the segments by themselves,
// so that all but the first shift compare those of the tokens that are moved.
void shift_within(std::span<std::int32_t> row, std::span<const std::int32_t> segments) {
  shift(row);
  for (std::size_t i = 0; i < row.size(); ++i) {
    const bool goes_on = i + 1 < row.size() && segments[i] == segments[i + 1];
    if (!goes_on || segments[i] == 0) row[i] = 0;
  }
}

}  // namespace

std::string InputAhead::name() const { return fmt::format("{}_ahead_{}", input, module); }

std::array<InputAhead, 3> inputs_of_module(std::int64_t module) {
  return {{{inputs::tokens, module}, {inputs::targets, module}, {inputs::target_segments, module}}};
}

std::vector<std::int32_t> values_ahead(std::span<const std::int32_t> values, std::span<const std::int32_t> segments, std::int64_t length,
                                       std::int64_t places) {
  std::vector<std::int32_t> made(values.begin(), values.end());
  std::vector<std::int32_t> of(segments.begin(), segments.end());
  const auto width = static_cast<std::size_t>(length);
  for (std::size_t begin = 0; begin < made.size(); begin += width) {
    const std::span row = std::span(made).subspan(begin, width), its_segments = std::span(of).subspan(begin, width);
    for (std::int64_t place = 0; place < places; ++place) {
      shift_within(row, its_segments);
      shift(its_segments);
    }
  }
  return made;
}

double percent_accepted(std::span<const std::int32_t> by_model, std::span<const std::int32_t> by_module,
                        std::span<const std::int32_t> counted_ahead, std::int64_t length, std::int64_t module) {
  const auto width = static_cast<std::size_t>(length), places = static_cast<std::size_t>(module);
  std::int64_t all = 0, accepted = 0;
  for (std::size_t i = 0; i < by_module.size(); ++i) {
    if (counted_ahead[i] == 0) continue;
    const std::int32_t expected = i % width + places < width ? by_model[i + places] : 0;
    ++all;
    accepted += by_module[i] == expected ? 1 : 0;
  }
  return all == 0 ? 0 : 100 * static_cast<double>(accepted) / static_cast<double>(all);
}

}  // namespace moesh::models
