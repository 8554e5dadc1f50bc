#include "store/layers.h"

#include <algorithm>
#include <string_view>

#include <fmt/core.h>

#include "base/text.h"

namespace moesh::store {
namespace {

// "mu/decoder/layers/layers_1/x": group "mu/decoder/layers", turn 1, rest "/x". Without turns -1.
struct Path {
  std::string group;
  std::int64_t turn = -1;
  std::string rest;
};

Path path_of(const std::string& name) {
  constexpr std::string_view kAbove = "decoder/", kTurn = "/layers_";
  const std::size_t decoder = name.find(kAbove);
  const std::size_t end = decoder == std::string::npos ? std::string::npos : name.find('/', decoder + kAbove.size());
  if (end == std::string::npos) return {name, -1, ""};
  Path path{name.substr(0, end), -1, name.substr(end)};
  if (path.rest.starts_with(kTurn)) {
    const std::size_t next = path.rest.find('/', 1);
    const auto turn = parse_integer(path.rest.substr(kTurn.size(), next - kTurn.size()));
    if (turn && next != std::string::npos) {
      path.turn = *turn;
      path.rest.erase(0, next);
    }
  }
  return path;
}

}  // namespace

LayerNames::LayerNames(std::map<std::string, Stack> tensors) : tensors_(std::move(tensors)) {
  for (const auto& [name, stack] : tensors_) {
    const Path path = path_of(name);
    std::int64_t& cycle = cycles_.emplace(path.group, 1).first->second;
    if (stack.dim < 0) continue;
    cycle = std::max(cycle, path.turn + 1);
    cycles_in_[path.group] = stack.layers;
  }
  for (const auto& [name, stack] : tensors_) {
    const std::vector<std::string> names = alone(name);
    for (std::size_t i = 0; i < names.size(); ++i) layers_.emplace(names[i], Layer{name, stack.dim, static_cast<std::int64_t>(i)});
  }
}

// Of the layers that are left after the last whole cycle of "layers", which are in "layers_remainder".
std::optional<std::string> LayerNames::name_of_rest(const std::string& group, std::int64_t turn, const std::string& rest) const {
  constexpr std::string_view kRest = "_remainder";
  if (turn < 0 || !group.ends_with(kRest)) return std::nullopt;
  const std::string whole = group.substr(0, group.size() - kRest.size());
  const auto cycles = cycles_in_.find(whole);
  const std::int64_t before = cycles == cycles_in_.end() ? 0 : cycles->second * cycles_.at(whole);
  return fmt::format("{}_{}{}", whole, before + turn, rest);
}

std::vector<std::string> LayerNames::alone(const std::string& tensor) const {
  const auto found = tensors_.find(tensor);
  if (found == tensors_.end()) return {tensor};
  const Path path = path_of(tensor);
  if (found->second.dim < 0) return {name_of_rest(path.group, path.turn, path.rest).value_or(tensor)};
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < found->second.layers; ++i) {
    names.push_back(fmt::format("{}_{}{}", path.group, i * cycles_.at(path.group) + std::max<std::int64_t>(path.turn, 0), path.rest));
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

}  // namespace moesh::store
