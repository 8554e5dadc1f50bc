#include "mesh/hardware.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "config/builtin.h"

namespace moesh::mesh {
namespace {

using config::YamlNode;

// Limits beyond any real machine. A size times the devices of a chip times 65,536 slices fits in 64 bits.
constexpr double kMostRate = 1e24;
constexpr double kLeastReached = 1e-3;
constexpr std::int64_t kMostTile = 4096;
constexpr double kLeastLatency = 1e-12;
constexpr double kMostLatency = 1000;
constexpr std::int64_t kMostMemory = std::int64_t{1} << 60;
constexpr std::int64_t kMostSize = std::int64_t{1} << 32;
constexpr std::int64_t kMostPerChip = 1024;
constexpr std::size_t kMostDims = 8;
constexpr std::size_t kMostGrids = 4096;
constexpr std::size_t kMostLinks = 16;
constexpr std::size_t kMostSources = 64;
constexpr std::size_t kMostPoints = 256;

constexpr std::array<std::pair<std::string_view, Domain>, 4> kDomains = {{
    {"chip", Domain::chip},
    {"node", Domain::node},
    {"slice", Domain::slice},
    {"all", Domain::all},
}};

using Fields = std::vector<std::string>;

// The content of a YAML node, for messages.
std::string described(const YamlNode& node) {
  switch (node.type) {
    case YamlNode::Type::null: return "empty";
    case YamlNode::Type::scalar: return fmt::format("'{}'", shorten(node.scalar, 60));
    case YamlNode::Type::sequence: return "a list";
    case YamlNode::Type::mapping: return "a mapping";
  }
  return "";
}

[[noreturn]] void refuse_value(const YamlNode& node, std::string_view what, std::string_view expected) {
  refuse(fmt::format("{} is {}, {} was expected", what, described(node), expected), node.where);
}

void check_fields(const YamlNode& node, std::string_view what, const Fields& known) {
  if (node.type != YamlNode::Type::mapping) {
    refuse_value(node, what, fmt::format("a mapping with the fields {}", join(known, ", ")));
  }
  for (const YamlNode& value : node.items) {
    const std::string& field = value.key;
    if (std::find(known.begin(), known.end(), field) != known.end()) continue;
    const std::vector<std::string> near = nearest(field, known, 1);
    const std::string fields = fmt::format("the fields are {}", join(known, ", "));
    refuse(fmt::format("field '{}' of {} is unknown", shorten(field, 60), what), value.where,
           near.empty() ? fields : fmt::format("did you mean {}?", near[0]));
  }
}

// The field's value, or null when the field is absent or null.
const YamlNode* given(const YamlNode& node, std::string_view field) {
  const YamlNode* value = node.find(field);
  return value == nullptr || value->type == YamlNode::Type::null ? nullptr : value;
}

const YamlNode& required(const YamlNode& node, std::string_view what, std::string_view field) {
  const YamlNode* value = given(node, field);
  if (value == nullptr) refuse(fmt::format("{} lacks {}", what, field), node.where, fmt::format("add {}: ...", field));
  return *value;
}

double real_of(const YamlNode& node, std::string_view what, double least, double most) {
  if (node.type == YamlNode::Type::scalar) {
    const auto value = parse_real(node.scalar);
    if (value && *value >= least && *value <= most) return *value;
  }
  refuse_value(node, what, fmt::format("a number from {:g} to {:g}", least, most));
}

double rate_of(const YamlNode& node, std::string_view what) { return real_of(node, what, 1, kMostRate); }

std::optional<double> optional_rate(const YamlNode& node, std::string_view field) {
  const YamlNode* value = given(node, field);
  return value == nullptr ? std::nullopt : std::optional(rate_of(*value, field));
}

// One rate, or a rate for each precision.
std::optional<std::array<double, 3>> optional_rates_of_float32(const YamlNode& file, std::string_view field) {
  const YamlNode* value = given(file, field);
  if (value == nullptr) return std::nullopt;
  if (value->type != YamlNode::Type::mapping) {
    const double rate = rate_of(*value, field);
    return {{rate, rate, rate}};
  }
  check_fields(*value, field, {"default", "high", "highest"});
  const auto rate = [&](const char* precision) { return rate_of(required(*value, field, precision), precision); };
  return {{rate("default"), rate("high"), rate("highest")}};
}

double optional_share(const YamlNode& node, std::string_view field, double otherwise) {
  const YamlNode* value = given(node, field);
  return value == nullptr ? otherwise : real_of(*value, field, kLeastReached, 1);
}

// Also one that is written like a rate: 141e9.
std::optional<std::int64_t> whole_number(const std::string& text) {
  constexpr double kMostExact = 9007199254740992.0;  // 2^53
  if (const auto integer = parse_integer(text)) return integer;
  const auto real = parse_real(text);
  if (!real || *real != std::floor(*real) || std::abs(*real) > kMostExact) return std::nullopt;
  return static_cast<std::int64_t>(*real);
}

std::int64_t count_of(const YamlNode& node, std::string_view what, std::int64_t least, std::int64_t most) {
  if (node.type == YamlNode::Type::scalar) {
    const auto value = whole_number(node.scalar);
    if (value && *value >= least && *value <= most) return *value;
  }
  refuse_value(node, what, fmt::format("an integer from {} to {}", least, most));
}

std::int64_t optional_count(const YamlNode& node, std::string_view field, std::int64_t initial, std::int64_t most) {
  const YamlNode* value = given(node, field);
  return value == nullptr ? initial : count_of(*value, field, 1, most);
}

std::string words_of(const YamlNode& node, std::string_view what) {
  if (node.type != YamlNode::Type::scalar || trim(node.scalar).empty()) refuse_value(node, what, "text");
  return node.scalar;
}

const std::vector<YamlNode>& list_of(const YamlNode& node, std::string_view what, std::size_t most) {
  const bool fits = node.type == YamlNode::Type::sequence && !node.items.empty() && node.items.size() <= most;
  if (fits) return node.items;
  const std::string expected = fmt::format("a list of 1 to {}", most);
  if (node.type != YamlNode::Type::sequence) refuse_value(node, what, expected);
  refuse(fmt::format("{} has {} entries, {} was expected", what, node.items.size(), expected), node.where);
}

Domain domain_of(const YamlNode& node) {
  for (const auto& [word, domain] : kDomains) {
    if (node.type == YamlNode::Type::scalar && node.scalar == word) return domain;
  }
  refuse_value(node, "domain", "chip, node, slice or all");
}

Link link_of(const YamlNode& node) {
  constexpr std::string_view what = "a link";
  check_fields(node, what, {"kind", "domain", "bytes_per_second", "latency_seconds", "ports", "reached"});
  Link link;
  link.kind = words_of(required(node, what, "kind"), "kind");
  link.is_memory = link.kind == "memory";
  link.domain = domain_of(required(node, what, "domain"));
  link.bytes_per_second = rate_of(required(node, what, "bytes_per_second"), "bytes_per_second");
  link.latency_seconds =
      real_of(required(node, what, "latency_seconds"), "latency_seconds", kLeastLatency, kMostLatency);
  link.ports = optional_count(node, "ports", 1, kMostPerChip);
  link.reached = optional_share(node, "reached", link.reached);
  return link;
}

// The links, each of which must reach farther than the one before it, and the last one all devices.
std::vector<Link> links_of(const YamlNode& node) {
  std::vector<Link> links;
  for (const YamlNode& item : list_of(node, "links", kMostLinks)) {
    links.push_back(link_of(item));
    if (links.size() == 1) continue;
    const Link& nearer = links[links.size() - 2];
    if (links.back().domain <= nearer.domain) {
      refuse(fmt::format("link {} ({}) stands after {} ({}), the nearest domain was expected first", links.back().kind,
                         name_of(links.back().domain), nearer.kind, name_of(nearer.domain)),
             item.where, "order the links chip, node, slice, all");
    }
  }
  if (links.back().domain != Domain::all) {
    refuse(fmt::format("the last link, {}, reaches only a {}", links.back().kind, name_of(links.back().domain)),
           node.where, "add the link between slices, with domain: all");
  }
  return links;
}

// Reads "4x4x8". Returns nothing if the text is no grid, or one of too many chips or dims.
std::optional<std::vector<std::int64_t>> parse_grid(std::string_view text) {
  std::vector<std::int64_t> grid;
  std::int64_t chips = 1;
  for (const std::string& word : split(text, 'x')) {
    const auto dim = parse_integer(word);
    if (!dim || *dim < 1 || *dim > kMostSize / chips) return std::nullopt;
    chips *= *dim;
    grid.push_back(*dim);
  }
  return grid.size() <= kMostDims ? std::optional(grid) : std::nullopt;
}

MemoryTile memory_tile_of(const YamlNode& node) {
  if (list_of(node, "memory_tile", 2).size() != 2) refuse_value(node, "memory_tile", "[rows, columns]");
  return {count_of(node.items[0], "rows of memory_tile", 1, kMostTile), count_of(node.items[1], "columns of memory_tile", 1, kMostTile)};
}

std::vector<std::vector<std::int64_t>> grids_of(const YamlNode& node) {
  std::vector<std::vector<std::int64_t>> grids;
  std::vector<std::pair<std::int64_t, std::string>> seen;
  for (const YamlNode& item : list_of(node, "grids", kMostGrids)) {
    const auto grid = item.type == YamlNode::Type::scalar ? parse_grid(item.scalar) : std::nullopt;
    if (!grid) {
      refuse_value(item, "a grid",
                   fmt::format("1 to {} sizes such as 4x4x8 with at most {} chips", kMostDims, kMostSize));
    }
    grids.push_back(*grid);
    seen.emplace_back(chips_of(*grid), item.scalar);
  }
  std::sort(seen.begin(), seen.end());
  const auto twin = std::adjacent_find(seen.begin(), seen.end(), [](auto& a, auto& b) { return a.first == b.first; });
  if (twin != seen.end()) {
    refuse(fmt::format("grids {} and {} both have {} chips, so one name would mean both", twin->second,
                       std::next(twin)->second, twin->first),
           node.where, "keep one of them");
  }
  return grids;
}

void read_wrap(const YamlNode& node, GridSizes& sizes) {
  check_fields(node, "wrap", {"all_multiples_of", "at_least"});
  const YamlNode* multiples = given(node, "all_multiples_of");
  const YamlNode* least = given(node, "at_least");
  if ((multiples == nullptr) == (least == nullptr)) {
    refuse(fmt::format("wrap has {} of all_multiples_of and at_least, one was expected",
                       multiples == nullptr ? "neither" : "both"),
           node.where);
  }
  if (multiples != nullptr) sizes.wrap_all_multiples_of = count_of(*multiples, "all_multiples_of", 1, kMostSize);
  if (least != nullptr) sizes.wrap_at_least = count_of(*least, "at_least", 1, kMostSize);
}

GridSizes grid_sizes_of(const YamlNode& node) {
  check_fields(node, "sizes with grids", {"grids", "number_per_chip", "wrap"});
  GridSizes sizes;
  sizes.grids = grids_of(required(node, "sizes", "grids"));
  sizes.number_per_chip = optional_count(node, "number_per_chip", 1, kMostPerChip);
  if (const YamlNode* wrap = given(node, "wrap")) read_wrap(*wrap, sizes);
  return sizes;
}

std::variant<GridSizes, NodeSizes, AnySizes> sizes_of(const YamlNode& node) {
  check_fields(node, "sizes", {"grids", "number_per_chip", "wrap", "node", "most"});
  if (given(node, "grids") != nullptr) return grid_sizes_of(node);
  check_fields(node, "sizes without grids", {"node", "most"});
  const std::int64_t most = count_of(required(node, "sizes without grids", "most"), "most", 1, kMostSize);
  if (const YamlNode* devices = given(node, "node")) return NodeSizes{count_of(*devices, "node", 1, most), most};
  return AnySizes{most};
}

std::vector<std::string> source_of(const YamlNode& node) {
  if (node.type == YamlNode::Type::scalar) return {words_of(node, "source")};
  std::vector<std::string> source;
  for (const YamlNode& item : list_of(node, "source", kMostSources)) source.push_back(words_of(item, "a source"));
  return source;
}

TimedWork timed_work_of(const YamlNode& node) {
  const auto& pair = list_of(node, "a point", 2);
  if (pair.size() != 2) refuse_value(node, "a point", "[WORK, SECONDS]");
  return {real_of(pair[0], "work", 0, kMostRate), real_of(pair[1], "seconds", kLeastLatency, kMostLatency)};
}

// "einsum bfloat16: [[2e6, 1e-4], [2e9, 5e-2]]"
MeasuredTimes measured_of(const YamlNode& node) {
  if (node.type != YamlNode::Type::mapping || node.items.empty()) refuse_value(node, "measured", "a mapping of kernels to points");
  MeasuredTimes measured;
  for (const YamlNode& item : node.items) {
    std::vector<TimedWork>& points = measured[item.key];
    for (const YamlNode& point : list_of(item, item.key, kMostPoints)) {
      points.push_back(timed_work_of(point));
      if (points.size() > 1 && points[points.size() - 2].work >= points.back().work)
        refuse(fmt::format("the points of {} are not from the least work to the most", shorten(item.key, 60)), point.where);
    }
  }
  return measured;
}

void check_node_links(const Chip& chip, const YamlNode& links) {
  const bool has_nodes = std::holds_alternative<NodeSizes>(chip.sizes);
  for (const Link& link : chip.links) {
    if (link.domain != Domain::node || has_nodes) continue;
    refuse(fmt::format("link {} connects a node, but sizes has no node", link.kind), links.where,
           "give sizes a node: DEVICES, or the link another domain");
  }
}

}  // namespace

std::string_view name_of(Domain domain) {
  for (const auto& [word, known] : kDomains) {
    if (known == domain) return word;
  }
  return "";
}

std::int64_t chips_of(const std::vector<std::int64_t>& grid) {
  std::int64_t chips = 1;
  for (const std::int64_t dim : grid) chips *= dim;
  return chips;
}

std::vector<std::string> hardware_names() { return config::builtin_names("hardware"); }

Chip load_chip(const YamlNode& file, std::string name) {
  constexpr std::string_view what = "a hardware file";
  check_fields(file, what,
               {"title", "source", "devices_per_chip", "bf16_flops_per_second", "fp8_flops_per_second", "f32_flops_per_second",
                "int8_flops_per_second", "bf16_reached", "fp8_reached", "matrix_tile", "memory_bytes", "usable_memory_bytes", "memory_tile",
                "memory_bytes_per_second", "host_bytes_per_second", "links", "sizes", "measured"});
  Chip chip;
  chip.name = std::move(name);
  chip.title = words_of(required(file, what, "title"), "title");
  chip.source = source_of(required(file, what, "source"));
  chip.devices_per_chip = optional_count(file, "devices_per_chip", 1, kMostPerChip);
  chip.bf16_flops_per_second = optional_rate(file, "bf16_flops_per_second");
  chip.fp8_flops_per_second = optional_rate(file, "fp8_flops_per_second");
  chip.f32_flops_per_second = optional_rates_of_float32(file, "f32_flops_per_second");
  chip.int8_flops_per_second = optional_rate(file, "int8_flops_per_second");
  chip.bf16_reached = optional_share(file, "bf16_reached", chip.bf16_reached);
  chip.fp8_reached = optional_share(file, "fp8_reached", chip.bf16_reached);
  chip.matrix_tile = optional_count(file, "matrix_tile", 128, kMostTile);
  chip.memory_bytes = count_of(required(file, what, "memory_bytes"), "memory_bytes", 1, kMostMemory);
  chip.usable_memory_bytes = optional_count(file, "usable_memory_bytes", chip.memory_bytes, chip.memory_bytes);
  if (const YamlNode* tile = given(file, "memory_tile")) chip.memory_tile = memory_tile_of(*tile);
  chip.memory_bytes_per_second = rate_of(required(file, what, "memory_bytes_per_second"), "memory_bytes_per_second");
  chip.host_bytes_per_second = optional_rate(file, "host_bytes_per_second");
  const YamlNode& links = required(file, what, "links");
  chip.links = links_of(links);
  chip.sizes = sizes_of(required(file, what, "sizes"));
  check_node_links(chip, links);
  if (const YamlNode* measured = given(file, "measured")) chip.measured = measured_of(*measured);
  return chip;
}

Chip load_builtin_chip(const std::string& name) {
  const config::BuiltinFile* file = config::find_builtin(fmt::format("hardware/{}.yml", name));
  if (file == nullptr) fail(fmt::format("hardware '{}' is not built in", name));
  return load_chip(config::parse_yaml(file->text, fmt::format("configs/{}", file->path)), name);
}

}  // namespace moesh::mesh
