#include "sharding/diff.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "base/json.h"
#include "base/table.h"
#include "base/text.h"
#include "mesh/json.h"
#include "sharding/blocks.h"
#include "sharding/report.h"

namespace moesh::sharding {
namespace {

using Kind = Difference::Kind;

// The coordinates of a layout's devices, computed once for all its tensors.
struct Devices {
  explicit Devices(const Layout& layout) : mesh(layout.mesh) {
    for (std::int64_t device = 0; device < mesh.devices(); ++device) coordinates.push_back(mesh.coordinates_of(device));
  }

  std::vector<Range> block(const LaidTensor& tensor, std::size_t device) const {
    return block_of(tensor.shape, tensor.spec, mesh, coordinates[device]);
  }

  const mesh::Mesh& mesh;
  std::vector<Coordinates> coordinates;
};

bool are_equal(const std::vector<Range>& a, const std::vector<Range>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Range& x, const Range& y) { return x.begin == y.begin && x.end == y.end; });
}

class Comparison {
 public:
  Comparison(const Layout& before, const Layout& after)
      : before_(before), after_(after), to_device_(after_.coordinates.size()) {}

  bool lie_alike(const LaidTensor& a, const LaidTensor& b) { return a.shape == b.shape && a.dtype == b.dtype && way(a, b).is_none; }

  // Devices with equal numbers are the same device. A tensor of another shape is initialized anew, so nothing is sent for it.
  Travel travel(const LaidTensor& a, const LaidTensor& b) {
    Travel travel;
    if (a.shape != b.shape) return travel;
    const std::vector<double>& lacking = way(a, b).lacking;
    for (std::size_t device = 0; device < lacking.size(); ++device) {
      const double bytes = lacking[device] * static_cast<double>(size_of(b.dtype));
      travel.bytes += bytes;
      travel.most = std::max(travel.most, bytes);
      to_device_[device] += bytes;
    }
    return travel;
  }

  // The sum over all tensors so far.
  Travel all_travel() const {
    Travel all;
    for (const double bytes : to_device_) all = {all.bytes + bytes, std::max(all.most, bytes)};
    return all;
  }

 private:
  // The move between two layouts of one shape, which all tensors of that shape in these layouts share.
  struct Way {
    bool is_none = true;          // each device keeps its block
    std::vector<double> lacking;  // by device: elements that it does not have yet
  };

  const Way& way(const LaidTensor& a, const LaidTensor& b) {
    const std::string key = moesh::to_string(a.shape) + to_string(a.spec, before_.mesh) + to_string(b.spec, after_.mesh);
    const auto [place, is_new] = ways_.try_emplace(key);
    Way& way = place->second;
    if (!is_new) return way;
    way.is_none = before_.coordinates.size() == after_.coordinates.size();
    for (std::size_t device = 0; device < after_.coordinates.size(); ++device) {
      const std::vector<Range> wanted = after_.block(b, device);
      const std::vector<Range> held = device < before_.coordinates.size() ? before_.block(a, device) : std::vector<Range>{};
      way.is_none = way.is_none && are_equal(held, wanted);
      way.lacking.push_back(static_cast<double>(volume(wanted) - (held.empty() && !wanted.empty() ? 0 : common_volume(held, wanted))));
    }
    return way;
  }

  Devices before_, after_;
  std::vector<double> to_device_;
  std::map<std::string, Way> ways_;
};

Side side_of(const LaidTensor& tensor, const mesh::Mesh& mesh) {
  return {moesh::to_string(tensor.shape), spec_words(tensor.spec, mesh), bytes_per_device(tensor, mesh),
          replicas(tensor, mesh)};
}

struct Pair {
  const LaidTensor* before = nullptr;
  const LaidTensor* after = nullptr;
};

using Pairs = std::map<std::string, Pair>;  // by path

Pairs pairs_of(const std::vector<LaidTensor>& before, const std::vector<LaidTensor>& after) {
  Pairs pairs;
  for (const LaidTensor& tensor : before) pairs[tensor.path].before = &tensor;
  for (const LaidTensor& tensor : after) pairs[tensor.path].after = &tensor;
  return pairs;
}

// Whether a moment has the spec of its parameter.
bool lies_as(const LaidTensor* moment, const LaidTensor* parameter) {
  return moment == nullptr || (parameter != nullptr && moment->spec == parameter->spec);
}

class Differ {
 public:
  Differ(const Layout& before, const Layout& after) : before_(before), after_(after), comparison_(before, after) {}

  LayoutDiff run() {
    const Pairs parameters = pairs_of(before_.parameters, after_.parameters);
    for (const auto& [path, pair] : parameters) compare(Kind::parameter, path, pair);
    fold_moments(parameters);
    for (const auto& [path, pair] : pairs_of(before_.activations, after_.activations)) {
      const std::size_t known = diff_.differences.size();
      compare(Kind::activation, path, pair);
      if (diff_.differences.size() == known) continue;
      diff_.activation_bytes_before += bytes_of(diff_.differences.back().before);
      diff_.activation_bytes_after += bytes_of(diff_.differences.back().after);
    }
    diff_.travel = comparison_.all_travel();
    return std::move(diff_);
  }

  static std::int64_t bytes_of(const std::optional<Side>& side) { return side ? side->bytes : 0; }

 private:
  void compare(Kind kind, const std::string& path, const Pair& pair) {
    if (pair.before != nullptr && pair.after != nullptr && comparison_.lie_alike(*pair.before, *pair.after)) return;
    Difference d{kind, path, {}, {}};
    if (pair.before != nullptr) d.before = side_of(*pair.before, before_.mesh);
    if (pair.after != nullptr) d.after = side_of(*pair.after, after_.mesh);
    if (d.is_state() && pair.before != nullptr && pair.after != nullptr) d.travel = comparison_.travel(*pair.before, *pair.after);
    diff_.differences.push_back(std::move(d));
  }

  // Adds moments that have the specs of their parameters to the rows of these.
  void fold_moments(const Pairs& parameters) {
    std::map<std::string, std::size_t> rows;
    for (std::size_t i = 0; i < diff_.differences.size(); ++i) rows[diff_.differences[i].path] = i;
    for (const auto& [path, pair] : pairs_of(before_.moments, after_.moments)) {
      const std::string& of = (pair.after != nullptr ? pair.after : pair.before)->moment_of;
      const auto parameter = parameters.find(of);
      const auto row = rows.find(of);
      const bool folds = parameter != parameters.end() && row != rows.end() && lies_as(pair.before, parameter->second.before) &&
                         lies_as(pair.after, parameter->second.after) && (pair.before != nullptr) == (pair.after != nullptr);
      if (!folds) {
        compare(Kind::moment, path, pair);
        continue;
      }
      Difference& d = diff_.differences[row->second];
      d.before->bytes += bytes_per_device(*pair.before, before_.mesh);
      d.after->bytes += bytes_per_device(*pair.after, after_.mesh);
      const Travel travel = comparison_.travel(*pair.before, *pair.after);
      d.travel = {d.travel.bytes + travel.bytes, d.travel.most + travel.most};  // the same devices receive both
    }
  }

  const Layout& before_;
  const Layout& after_;
  Comparison comparison_;
  LayoutDiff diff_;
};

std::string signed_bytes(std::int64_t bytes) {
  return (bytes > 0 ? "+" : bytes < 0 ? "-" : "") + human_bytes(bytes < 0 ? -bytes : bytes);
}

std::string lies(const std::optional<Side>& side) { return side ? side->spec : "(absent)"; }

// The heading above the tensors of a kind.
std::string_view heading(Kind kind) {
  switch (kind) {
    case Kind::parameter: return "parameters with their moments";
    case Kind::moment: return "optimizer state";
    case Kind::activation: return "activations";
  }
  return "";
}

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::parameter: return "parameter";
    case Kind::moment: return "optimizer";
    case Kind::activation: return "activation";
  }
  return "";
}

// The differences of one kind, under its name.
void add_kind(Table& table, const std::vector<Difference>& differences, int width) {
  table.add_group({std::string(heading(differences.front().kind)), "", "", "", ""});
  std::vector<std::string> paths;
  for (const Difference& d : differences) paths.push_back(d.path);
  for (const TreeLine& line : path_lines(paths, width)) {
    if (!line.path) {
      table.add({line.text, "", "", "", ""});
      continue;
    }
    const Difference& d = differences[*line.path];
    table.add({line.text, lies(d.before), lies(d.after), signed_bytes(Differ::bytes_of(d.after) - Differ::bytes_of(d.before)),
               !d.is_state() ? "" : human_bytes(d.travel.bytes)});
  }
}

std::string moved_words(std::size_t tensors) {
  if (tensors == 0) return "No state moves";
  return tensors == 1 ? "1 tensor of the state moves" : fmt::format("{} tensors of the state move", tensors);
}

std::string state_words(const LayoutDiff& diff, std::size_t moved) {
  return fmt::format("{}. Parameters and optimizer state on a device: {} -> {} ({}).\n{}", moved_words(moved),
                     human_bytes(diff.state_bytes_before), human_bytes(diff.state_bytes_after),
                     signed_bytes(diff.state_bytes_after - diff.state_bytes_before),
                     diff.travel.bytes > 0 ? fmt::format("To go from one to the other {} travel, {} of them to one device.\n",
                                                         human_bytes(diff.travel.bytes), human_bytes(diff.travel.most))
                                           : "To go from one to the other nothing travels.\n");
}

std::string activation_words(const LayoutDiff& diff, std::size_t moved, bool listed) {
  return fmt::format("{}: {} -> {} on a device, each once ({}).{}\n",
                     moved == 1 ? "1 activation moves" : fmt::format("{} activations move", moved),
                     human_bytes(diff.activation_bytes_before),
                     human_bytes(diff.activation_bytes_after),
                     signed_bytes(diff.activation_bytes_after - diff.activation_bytes_before), listed ? "" : " --activations lists them.");
}

void write_side(JsonWriter& json, const char* key, const std::optional<Side>& side) {
  json.key(key);
  if (!side) {
    json.null();
    return;
  }
  json.begin_object().key("shape").value(side->shape).key("spec").value(side->spec);
  json.key("bytes_per_device").value(side->bytes).key("replicas").value(side->replicas).end_object();
}

}  // namespace

bool LayoutDiff::moves_state() const {
  return std::any_of(differences.begin(), differences.end(), [](const Difference& d) { return d.is_state(); });
}

LayoutDiff diff(const Layout& before, const Layout& after) {
  LayoutDiff result = Differ(before, after).run();
  result.mesh_before = before.mesh;
  result.mesh_after = after.mesh;
  result.state_bytes_before = state_bytes(before);
  result.state_bytes_after = state_bytes(after);
  return result;
}

std::string to_text(const LayoutDiff& diff, const DiffOptions& options) {
  if (diff.differences.empty()) return "nothing moves.\n";
  const bool lists_activations = options.activations || !diff.moves_state();
  Table table({{"tensor"}, {"before"}, {"after"}, {"a device", true}, {"travels", true, Room::none, 1}});
  std::size_t activations = 0;
  for (auto first = diff.differences.begin(); first != diff.differences.end();) {
    const auto last = std::find_if(first, diff.differences.end(), [&](const Difference& d) { return d.kind != first->kind; });
    if (!first->is_state()) activations = static_cast<std::size_t>(last - first);
    if (first->is_state() || lists_activations) add_kind(table, {first, last}, options.width);
    first = last;
  }
  const std::string of_what = options.filter.empty() ? "" : fmt::format("Of the tensors that match {}:\n", options.filter);
  std::string words = "\n" + of_what + state_words(diff, diff.differences.size() - activations);
  if (activations > 0) words += activation_words(diff, activations, lists_activations);
  return table.text(options.width) + wrapped(words, options.width, 2);
}

std::string to_json(const LayoutDiff& diff) {
  JsonWriter json;
  const auto both = [&](const char* key, std::int64_t before, std::int64_t after) {
    json.line().key(key).begin_object().key("before").value(before).key("after").value(after).end_object();
  };
  const auto write_travel = [&](const Travel& travel) {
    json.key("travel_bytes").value(travel.bytes).key("travel_bytes_of_busiest_device").value(travel.most);
  };
  mesh::write_sizes(diff.mesh_before, json.begin_object().key("mesh").begin_object().key("before"));
  mesh::write_sizes(diff.mesh_after, json.key("after"));
  json.end_object();
  both("state_bytes_per_device", diff.state_bytes_before, diff.state_bytes_after);
  both("activation_bytes_per_device", diff.activation_bytes_before, diff.activation_bytes_after);
  json.line();
  write_travel(diff.travel);
  json.line().key("differences").begin_array();
  for (const Difference& d : diff.differences) {
    json.line().begin_object().key("kind").value(name_of(d.kind)).key("path").value(d.path);
    write_side(json, "before", d.before);
    write_side(json, "after", d.after);
    if (d.is_state()) write_travel(d.travel);
    json.end_object();
  }
  json.line().end_array().line().end_object();
  return json.text() + "\n";
}

}  // namespace moesh::sharding
