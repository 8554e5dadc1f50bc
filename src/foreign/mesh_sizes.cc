#include "foreign/mesh_sizes.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include <fmt/core.h>

#include "base/text.h"

namespace moesh::foreign {
namespace {

constexpr std::string_view kAxes[] = {
    "data",   "pipeline",        "fsdp",           "fsdp_transpose", "sequence", "context", "context_autoregressive",
    "tensor", "tensor_sequence", "autoregressive", "expert"};
constexpr std::int64_t kMostOfAxis = 1'000'000;
constexpr double kLargestExact = 1e15;  // products up to here are exact

std::string key_of_axis(std::string_view kind, std::string_view axis) { return fmt::format("{}_{}_parallelism", kind, axis); }

// The user's size; -1 for "what is left". Anything that is no size, or too large for one, is left to the configuration to refuse.
std::optional<std::int64_t> own_size(std::string_view kind, std::string_view axis, const Translation& translation) {
  const std::optional<std::string> text = translation.own(key_of_axis(kind, axis));
  const std::optional<std::int64_t> size = text ? parse_integer(*text) : std::nullopt;
  return size && (*size == -1 || (*size > 0 && *size <= kMostOfAxis)) ? size : std::nullopt;
}

bool is_any_own(std::string_view kind, const Translation& translation) {
  return std::any_of(std::begin(kAxes), std::end(kAxes),
                     [&](std::string_view axis) { return translation.is_own(key_of_axis(kind, axis)); });
}

bool is_any_left_open(const Translation& translation) {
  return std::any_of(std::begin(kAxes), std::end(kAxes), [&](std::string_view axis) { return own_size("ici", axis, translation) == -1; });
}

AxisSize& axis_of(std::vector<AxisSize>& sizes, std::string_view name) {
  const auto found = std::find_if(sizes.begin(), sizes.end(), [&](const AxisSize& size) { return size.name == name; });
  return found == sizes.end() ? sizes.emplace_back(AxisSize{name}) : *found;
}

// The number of devices of all axes but one.
double devices_beside(const std::vector<AxisSize>& sizes, std::string_view name) {
  double all = 1;
  for (const AxisSize& size : sizes) {
    if (size.name != name) all *= static_cast<double>(std::max<std::int64_t>(1, size.ici));
    all *= static_cast<double>(std::max<std::int64_t>(1, size.dcn));
  }
  return all;
}

void take_own_size(AxisSize& size, bool has_own_slices, const Translation& translation) {
  const std::int64_t whole = size.ici * size.dcn;
  const auto ici = own_size("ici", size.name, translation), dcn = own_size("dcn", size.name, translation);
  if (has_own_slices) size.dcn = std::max<std::int64_t>(1, dcn.value_or(1));
  if (ici) {
    size.ici = *ici;
  } else if (has_own_slices) {
    size.ici = whole % size.dcn == 0 ? whole / size.dcn : whole;
  }
}

}  // namespace

std::int64_t slices_of(const Translation& translation) {
  const std::optional<std::string> asked = translation.own("compile_topology_num_slices");
  return std::max<std::int64_t>(1, asked ? parse_integer(*asked).value_or(1) : 1);
}

bool sizes_axes(const Translation& translation) { return is_any_own("ici", translation) || is_any_own("dcn", translation); }

void spread_slices(std::vector<AxisSize>& sizes, const Translation& translation) {
  const std::int64_t slices = slices_of(translation);
  const auto first = std::find_if(sizes.begin(), sizes.end(), [&](const AxisSize& size) { return size.ici % slices == 0; });
  if (slices == 1 || first == sizes.end()) return;
  first->ici /= slices;
  first->dcn = slices;
}

std::int64_t take_own_sizes(std::vector<AxisSize>& sizes, std::string_view rest, std::optional<std::int64_t> count,
                            const Translation& translation) {
  const auto give_rest = [&] {
    const double left = static_cast<double>(*count) / devices_beside(sizes, rest);
    if (left >= 1 && left == std::floor(left)) axis_of(sizes, rest).ici = static_cast<std::int64_t>(left);
  };
  const bool takes_rest = !rest.empty() && count, has_own_slices = is_any_own("dcn", translation);
  if (takes_rest) give_rest();
  spread_slices(sizes, translation);
  for (const std::string_view axis : kAxes) {
    if (own_size("ici", axis, translation) || own_size("dcn", axis, translation)) axis_of(sizes, axis);
  }
  for (AxisSize& size : sizes) take_own_size(size, has_own_slices, translation);
  if (takes_rest && !own_size("ici", rest, translation)) {
    axis_of(sizes, rest).ici = 1;
    if (!is_any_left_open(translation)) give_rest();
  }
  return count.value_or(static_cast<std::int64_t>(std::min(kLargestExact, devices_beside(sizes, ""))));
}

std::int64_t size_of(const std::vector<AxisSize>& sizes, std::string_view name) {
  const auto found = std::find_if(sizes.begin(), sizes.end(), [&](const AxisSize& size) { return size.name == name; });
  return found == sizes.end() ? 1 : std::max<std::int64_t>(1, found->ici) * std::max<std::int64_t>(1, found->dcn);
}

void give_sizes(const std::vector<AxisSize>& sizes, Translation& translation) {
  for (const AxisSize& size : sizes) {
    if (size.dcn > 1) translation.give(key_of_axis("dcn", size.name), size.dcn);
    if (size.ici > 1 || size.name == "fsdp") translation.give(key_of_axis("ici", size.name), size.ici);
  }
}

}  // namespace moesh::foreign
