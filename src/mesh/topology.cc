#include "mesh/topology.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::mesh {
namespace {

constexpr std::int64_t kMostSlices = 65536;

// Names by which other engines call machines of the catalogue.
constexpr std::array<std::pair<std::string_view, std::string_view>, 1> kAliases = {{{"a3", "h100-8"}}};

struct Slice {
  std::vector<std::int64_t> grid;
  std::vector<bool> wrap;
  std::int64_t devices = 1;
};

std::vector<bool> wrap_of(const GridSizes& sizes, const std::vector<std::int64_t>& grid) {
  const std::int64_t unit = sizes.wrap_all_multiples_of.value_or(1);
  const bool whole = sizes.wrap_all_multiples_of.has_value() &&
                     std::all_of(grid.begin(), grid.end(), [&](std::int64_t dim) { return dim % unit == 0; });
  std::vector<bool> wrap;
  for (const std::int64_t dim : grid) wrap.push_back(whole || (sizes.wrap_at_least && dim >= *sizes.wrap_at_least));
  return wrap;
}

// The slice of a size; nothing if the kind does not come in that size.
std::optional<Slice> slice_of(const GridSizes& sizes, const Chip& chip, std::int64_t size) {
  for (const auto& grid : sizes.grids) {
    const std::int64_t chips = chips_of(grid);
    if (size % sizes.number_per_chip != 0 || size / sizes.number_per_chip != chips) continue;
    return Slice{grid, wrap_of(sizes, grid), chips * chip.devices_per_chip};
  }
  return std::nullopt;
}

std::optional<Slice> slice_of(const NodeSizes& sizes, const Chip&, std::int64_t size) {
  if (size < 1 || size > sizes.most) return std::nullopt;
  if (size <= sizes.node) return Slice{{size}, {false}, size};
  if (size % sizes.node != 0) return std::nullopt;
  return Slice{{size / sizes.node, sizes.node}, {false, false}, size};
}

std::optional<Slice> slice_of(const AnySizes& sizes, const Chip&, std::int64_t size) {
  if (size < 1 || size > sizes.most) return std::nullopt;
  return Slice{{size}, {false}, size};
}

// Some valid sizes, among them those nearest to `size`.
std::vector<std::int64_t> neighbours(const GridSizes& sizes, std::int64_t) {
  std::vector<std::int64_t> numbers;
  for (const auto& grid : sizes.grids) numbers.push_back(chips_of(grid) * sizes.number_per_chip);
  return numbers;
}

std::vector<std::int64_t> neighbours(const NodeSizes& sizes, std::int64_t size) {
  const std::int64_t in_node = std::min(size, sizes.node), nodes = std::min(size, sizes.most) / sizes.node;
  std::vector<std::int64_t> numbers{in_node, std::min(in_node + 1, sizes.node)};
  for (const std::int64_t count : {nodes, nodes + 1}) {
    if (count > 0 && count <= sizes.most / sizes.node) numbers.push_back(count * sizes.node);
  }
  return numbers;
}

std::vector<std::int64_t> neighbours(const AnySizes& sizes, std::int64_t) { return {1, sizes.most}; }

// Sizes in ascending order: all grids; else powers of two of devices and, if there are nodes, of whole nodes.
std::vector<std::int64_t> series(const GridSizes& sizes) {
  std::vector<std::int64_t> numbers = neighbours(sizes, 0);
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

std::vector<std::int64_t> series(const NodeSizes& sizes) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t part = 1; part < sizes.node; part *= 2) numbers.push_back(part);
  for (std::int64_t devices = sizes.node; devices <= sizes.most; devices *= 2) numbers.push_back(devices);
  return numbers;
}

std::vector<std::int64_t> series(const AnySizes& sizes) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t devices = 1; devices <= sizes.most; devices *= 2) numbers.push_back(devices);
  return numbers;
}

// The nearest valid size up to `size`, and the nearest above it.
std::vector<std::int64_t> nearest_sizes(const Chip& chip, std::int64_t size) {
  const auto all = std::visit([&](const auto& sizes) { return neighbours(sizes, size); }, chip.sizes);
  std::optional<std::int64_t> below;
  std::optional<std::int64_t> above;
  for (const std::int64_t number : all) {
    if (number <= size && number > below.value_or(0)) below = number;
    if (number > size && number < above.value_or(std::numeric_limits<std::int64_t>::max())) above = number;
  }
  std::vector<std::int64_t> found;
  for (const auto& number : {below, above}) {
    if (number) found.push_back(*number);
  }
  return found;
}

std::string spelled(const GridSizes& sizes) {
  std::vector<std::int64_t> numbers = neighbours(sizes, 0);
  std::sort(numbers.begin(), numbers.end());
  if (numbers.size() > 12) {
    return fmt::format("one of {} sizes from {} to {}", numbers.size(), numbers.front(), numbers.back());
  }
  std::vector<std::string> words;
  for (const std::int64_t number : numbers) words.push_back(std::to_string(number));
  return join(words, ", ");
}

std::string spelled(const NodeSizes& sizes) {
  return fmt::format("1 to {}, or a multiple of {} up to {}", sizes.node, sizes.node, sizes.most);
}

std::string spelled(const AnySizes& sizes) { return fmt::format("1 to {}", sizes.most); }

std::string spelled_sizes(const Chip& chip) {
  return std::visit([](const auto& sizes) { return spelled(sizes); }, chip.sizes);
}

// The parts of a name. `prefix` is everything before the size: "v5p-", "mine.yml:".
struct Asked {
  std::string prefix;
  std::string kind;  // a kind of the catalogue, or the path of a file
  std::string size;
  bool is_file = false;
};

bool starts_size(std::string_view rest) { return rest.empty() || rest.front() == ':'; }

std::optional<Asked> asked_file(std::string_view name) {
  for (const std::string_view ending : {".yml", ".yaml"}) {
    const std::size_t at = name.rfind(ending);
    if (at == std::string_view::npos || !starts_size(name.substr(at + ending.size()))) continue;
    const std::string path(name.substr(0, at + ending.size()));
    const std::string_view rest = name.substr(path.size());
    return Asked{path + ":", path, std::string(rest.empty() ? rest : rest.substr(1)), true};
  }
  return std::nullopt;
}

Asked take_apart(std::string_view name) {
  name = meant_by(name);
  if (auto file = asked_file(name)) return *file;
  const std::size_t dash = name.rfind('-');
  const std::string kind(name.substr(0, dash));
  return {kind + "-", kind, dash == std::string_view::npos ? "" : std::string(name.substr(dash + 1)), false};
}

// A positive number without sign or leading zeros; nothing if the text is anything else.
std::optional<std::int64_t> parse_size(const std::string& text) {
  const bool plain = !text.empty() && text.front() != '0' && text.find_first_not_of("0123456789") == std::string::npos;
  return plain ? parse_integer(text) : std::nullopt;
}

std::string as_names(const Asked& asked, const std::vector<std::int64_t>& sizes) {
  std::vector<std::string> names;
  for (const std::int64_t size : sizes) names.push_back(fmt::format("{}{}", asked.prefix, size));
  return join(names, " or ");
}

// What a name means that has one of the kinds at its beginning and digits behind it, with one character between them or none: "v6e64" is
// v6e-64.
std::optional<Asked> asked_without_hyphen(std::string_view name, const std::vector<std::string>& kinds) {
  std::optional<Asked> longest;
  for (const std::string& kind : kinds) {
    const bool begins = lower(std::string(name)).starts_with(kind);
    const std::size_t digits = begins ? name.find_first_of("123456789", kind.size()) : std::string_view::npos;
    if (digits == std::string_view::npos || digits > kind.size() + 1 || (longest && kind.size() <= longest->kind.size())) continue;
    const std::string size(name.substr(digits));
    if (parse_size(size)) longest = Asked{kind + "-", kind, size, false};
  }
  return longest;
}

[[noreturn]] void refuse_kind(std::string_view name, const Asked& asked, const std::string& where) {
  const std::vector<std::string> kinds = hardware_names();
  const bool only_case_differs = std::binary_search(kinds.begin(), kinds.end(), lower(asked.kind));
  const std::optional<Asked> meant = asked_without_hyphen(name, kinds);
  const std::int64_t size = parse_size(meant ? meant->size : asked.size).value_or(1);
  std::vector<std::string> names;
  for (const std::string& kind : meant ? std::vector{meant->kind} : nearest(asked.kind, kinds, only_case_differs ? 1 : 3)) {
    const auto sizes = nearest_sizes(load_builtin_chip(kind), size);
    if (!sizes.empty()) names.push_back(fmt::format("{}-{}", kind, sizes.front()));
  }
  refuse(fmt::format("hardware '{}' is unknown, KIND-SIZE with one of {} or PATH.yml:SIZE was expected",
                     shorten(name, 60), join(kinds, ", ")),
         where, names.empty() ? "" : fmt::format("did you mean {}?", join(names, " or ")));
}

[[noreturn]] void refuse_size(const Asked& asked, const Chip& chip, const std::string& where) {
  const auto size = parse_size(asked.size.substr(0, asked.size.find('x')));  // of "64x2", 64
  const std::string what = asked.size.empty()
                               ? fmt::format("hardware '{}' needs a size", asked.kind)
                               : fmt::format("hardware '{}' has no size '{}'", asked.kind, shorten(asked.size, 30));
  const std::vector<std::int64_t> near = nearest_sizes(chip, size.value_or(8));
  refuse(fmt::format("{}: {} was expected", what, spelled_sizes(chip)), where,
         fmt::format("{} {}", size ? "use" : "for example", as_names(asked, near)));
}

Chip load_asked(std::string_view name, const Asked& asked, const std::string& where) {
  if (asked.is_file) return load_chip(config::read_yaml(asked.kind), asked.kind);
  const std::vector<std::string> kinds = hardware_names();
  if (!std::binary_search(kinds.begin(), kinds.end(), asked.kind)) refuse_kind(name, asked, where);
  return load_builtin_chip(asked.kind);
}

// The size of a kind that has only one grid, so that its name need not give it.
std::optional<std::int64_t> only_size(const Chip& chip) {
  const auto* sizes = std::get_if<GridSizes>(&chip.sizes);
  if (sizes == nullptr || sizes->grids.size() != 1) return std::nullopt;
  return chips_of(sizes->grids[0]) * sizes->number_per_chip;
}

Slice find_slice(const Asked& asked, const Chip& chip, const std::string& where) {
  const auto size = asked.size.empty() ? only_size(chip) : parse_size(asked.size);
  if (!size) refuse_size(asked, chip, where);
  const auto slice = std::visit([&](const auto& sizes) { return slice_of(sizes, chip, *size); }, chip.sizes);
  if (!slice) refuse_size(asked, chip, where);
  return *slice;
}

}  // namespace

std::string_view meant_by(std::string_view name) {
  const auto found = std::find_if(kAliases.begin(), kAliases.end(), [&](const auto& alias) { return alias.first == name; });
  return found == kAliases.end() ? name : found->second;
}

Topology find_topology(std::string_view name, std::int64_t slices, const std::string& where) {
  if (slices < 1 || slices > kMostSlices) {
    refuse(fmt::format("{} slices of {}, 1 to {} were expected", slices, shorten(name, 60), kMostSlices), where);
  }
  const Asked asked = take_apart(name);
  Chip chip = load_asked(name, asked, where);
  Slice slice = find_slice(asked, chip, where);
  if (chip.is_shared_machine()) chip.usable_memory_bytes = std::max<std::int64_t>(1, chip.usable_memory_bytes / (slice.devices * slices));
  return {std::string(name), std::move(chip), std::move(slice.grid), std::move(slice.wrap), slice.devices, slices};
}

std::vector<std::string> machines_like(std::string_view name, std::int64_t least, std::int64_t most) {
  const Asked asked = take_apart(name);
  const Chip chip = load_asked(name, asked, "compile_topology");
  std::vector<std::string> names;
  for (const std::int64_t number : std::visit([](const auto& sizes) { return series(sizes); }, chip.sizes)) {
    const std::int64_t devices = std::visit([&](const auto& sizes) { return slice_of(sizes, chip, number)->devices; }, chip.sizes);
    if (devices >= least && devices <= most) names.push_back(asked.prefix + std::to_string(number));
  }
  return names;
}

std::optional<std::int64_t> nearest_devices_like(std::string_view name, std::int64_t slices, std::int64_t wanted, std::int64_t unit) {
  const Chip chip = load_asked(name, take_apart(name), "compile_topology");
  std::optional<std::int64_t> nearest;
  const auto consider = [&](std::int64_t devices) {
    if (devices % unit == 0 && (!nearest || std::abs(devices - wanted) < std::abs(*nearest - wanted))) nearest = devices;
  };
  if (const auto* sizes = std::get_if<GridSizes>(&chip.sizes)) {
    for (const auto& grid : sizes->grids) consider(chips_of(grid) * chip.devices_per_chip * slices);
    return nearest;
  }
  const auto is_size = [&](std::int64_t devices) {
    return devices > 0 && devices % slices == 0 &&
           std::visit([&](const auto& sizes) { return slice_of(sizes, chip, devices / slices).has_value(); }, chip.sizes);
  };
  constexpr std::int64_t kMostTries = 100'000;
  for (std::int64_t i = 0; i < kMostTries && !nearest; ++i) {
    for (const std::int64_t devices : {(wanted / unit - i) * unit, (wanted / unit + 1 + i) * unit}) {
      if (is_size(devices)) consider(devices);
    }
  }
  return nearest;
}

}  // namespace moesh::mesh
