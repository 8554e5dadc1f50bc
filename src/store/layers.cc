#include "store/layers.h"

#include <algorithm>
#include <string_view>

#include <fmt/core.h>

#include "base/text.h"

namespace moesh::store {
namespace {

// For "mu/decoder/layers/layers_1/x", or layer_1: group "mu/decoder/layers", turn 1, rest "/x". A name without a turn has -1.
struct Path {
  enum class Turn { numbered, within, last, left };  // left: after the last whole cycle
  std::string group;
  std::int64_t turn = -1;
  std::string rest;
  Turn kind = Turn::numbered;
};

constexpr std::string_view kCycles = "/scanned_blocks", kLeft = "/layers_remainder", kWithin = "/local_layers/", kLast = "/global_layer/";

constexpr std::string_view kAlone = "/layers_";       // a layer by itself
constexpr std::int64_t kMostLayers = std::int64_t{1} << 32;  // a name with a larger number is not of a layer

// The number of the layer that a group such as "mu/decoder/layers_3" is; nothing if it is something else.
std::optional<std::int64_t> number_alone(const std::string& group) {
  const std::size_t at = group.rfind('/');
  if (at == std::string::npos || !std::string_view(group).substr(at).starts_with(kAlone)) return std::nullopt;
  const auto number = parse_integer(std::string_view(group).substr(at + kAlone.size()));
  return number && *number >= 0 && *number < kMostLayers ? number : std::nullopt;
}

// The path of a tensor in cycles whose layers, all but the last, are an inner stack.
Path nested_path(Path path) {
  const bool is_left = path.group.ends_with(kLeft), is_last = path.rest.starts_with(kLast);
  path.kind = is_left ? Path::Turn::left : is_last ? Path::Turn::last : Path::Turn::within;
  path.group.erase(path.group.rfind('/'));
  path.group += "/layers";
  path.rest.erase(0, (is_last ? kLast : kWithin).size() - 1);
  return path;
}

Path path_of(const std::string& name) {
  constexpr std::string_view kAbove = "decoder/";
  const std::size_t decoder = name.find(kAbove);
  const std::size_t end = decoder == std::string::npos ? std::string::npos : name.find('/', decoder + kAbove.size());
  if (end == std::string::npos) return {name, -1, ""};
  Path path{name.substr(0, end), -1, name.substr(end)};
  const bool may_nest = path.group.ends_with(kCycles) || path.group.ends_with(kLeft);
  if (may_nest && (path.rest.starts_with(kWithin) || path.rest.starts_with(kLast))) return nested_path(std::move(path));
  for (const std::string_view member : {"/layers_", "/layer_"}) {
    if (!path.rest.starts_with(member)) continue;
    const std::size_t next = path.rest.find('/', 1);
    const auto turn = parse_integer(path.rest.substr(member.size(), next - member.size()));
    if (turn && next != std::string::npos) {
      path.turn = *turn;
      path.rest.erase(0, next);
    }
    break;
  }
  return path;
}

}  // namespace

LayerNames::LayerNames(std::map<std::string, Stack> tensors) : tensors_(std::move(tensors)) {
  for (const auto& [name, stack] : tensors_) {
    const Path path = path_of(name);
    if (const auto number = number_alone(path.group); number && stack.dim < 0) alone_before_ = std::max(alone_before_, *number + 1);
    std::int64_t& cycle = layers_in_cycle_.emplace(path.group, 1).first->second;
    if (stack.dim < 0 || path.kind == Path::Turn::left) continue;
    cycle = std::max(cycle, std::max(path.turn, stack.within) + 1);
    cycles_[path.group] = stack.layers;
  }
  for (const auto& [name, stack] : tensors_) {
    const std::vector<std::string> names = alone(name);
    for (std::size_t n = 0; n < names.size(); ++n) {
      const auto i = static_cast<std::int64_t>(n);
      const bool is_nested = stack.within > 0;
      layers_.emplace(names[n], Layer{name, stack.dim, is_nested ? i / stack.within : i, is_nested ? i % stack.within : -1, i});
    }
  }
}

std::int64_t LayerNames::layers_in_cycles(const std::string& group) const {
  const auto cycles = cycles_.find(group);
  return cycles == cycles_.end() ? 0 : cycles->second * layers_in_cycle_.at(group);
}

// The name of a layer by its number in its group, to which the layers before its cycles are added.
std::string LayerNames::name_of(const std::string& group, std::int64_t number, const std::string& rest) const {
  if (!group.ends_with(kCycles)) return fmt::format("{}_{}{}", group, number, rest);
  return fmt::format("{}{}{}{}", group.substr(0, group.size() - kCycles.size()), kAlone, alone_before_ + number, rest);
}

// The name of one of the layers after the last whole cycle of a group; those of "layers" are in "layers_remainder".
std::optional<std::string> LayerNames::name_of_rest(const std::string& group, std::int64_t turn, const std::string& rest) const {
  constexpr std::string_view kRest = "_remainder";
  if (turn < 0 || !group.ends_with(kRest)) return std::nullopt;
  const std::string whole = group.substr(0, group.size() - kRest.size());
  return name_of(whole, layers_in_cycles(whole) + turn, rest);
}

std::vector<std::string> LayerNames::alone(const std::string& tensor) const {
  const auto found = tensors_.find(tensor);
  if (found == tensors_.end()) return {tensor};
  const Path path = path_of(tensor);
  if (found->second.dim < 0) return {name_of_rest(path.group, path.turn, path.rest).value_or(tensor)};
  std::vector<std::string> names;
  for (std::int64_t i = 0; path.kind == Path::Turn::left && i < found->second.layers; ++i)
    names.push_back(fmt::format("{}_{}{}", path.group, layers_in_cycles(path.group) + i, path.rest));
  if (path.kind == Path::Turn::left) return names;
  const std::int64_t cycle = layers_in_cycle_.at(path.group), turns = std::max<std::int64_t>(found->second.within, 1);
  const std::int64_t first = path.kind == Path::Turn::last ? cycle - 1 : std::max<std::int64_t>(path.turn, 0);
  for (std::int64_t i = 0; i < found->second.layers; ++i) {
    for (std::int64_t turn = first; turn < first + turns; ++turn)
      names.push_back(name_of(path.group, i * cycle + turn, path.rest));
  }
  return names;
}

const Layer* LayerNames::find(const std::string& alone) const {
  const auto found = layers_.find(alone);
  return found == layers_.end() ? nullptr : &found->second;
}

std::vector<Part> at_index(const std::vector<Part>& parts, int dim, std::int64_t index) {
  std::vector<Part> made;
  for (Part part : parts) {
    const sharding::Range range = part.block[static_cast<std::size_t>(dim)];
    if (index < range.begin || index >= range.end) continue;
    part.data += (index - range.begin) * part.strides[static_cast<std::size_t>(dim)];
    part.block.erase(part.block.begin() + dim);
    part.strides.erase(part.strides.begin() + dim);
    made.push_back(std::move(part));
  }
  return made;
}

std::vector<Part> as_index(const std::vector<Part>& parts, int dim, std::int64_t index) {
  std::vector<Part> made = parts;
  for (Part& part : made) {
    part.block.insert(part.block.begin() + dim, {index, index + 1});
    part.strides.insert(part.strides.begin() + dim, 0);
  }
  return made;
}

bool has_stack_within(const std::string& tensor) { return path_of(tensor).kind == Path::Turn::within; }

std::vector<Part> of_layer(const std::vector<Part>& parts, const Layer& layer) {
  if (layer.dim < 0) return parts;
  const std::vector<Part> made = at_index(parts, layer.dim, layer.index);
  return layer.within < 0 ? made : at_index(made, layer.dim, layer.within);
}

std::vector<Part> as_layer(const std::vector<Part>& parts, const Layer& layer) {
  if (layer.dim < 0) return parts;
  return as_index(layer.within < 0 ? parts : as_index(parts, layer.dim, layer.within), layer.dim, layer.index);
}

}  // namespace moesh::store
