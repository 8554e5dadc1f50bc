#include "mesh/mesh.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::mesh {
namespace {

constexpr std::int64_t kDevicesOfThisMachine = 8;

struct Factor {
  std::string key;
  std::int64_t size;
};

// If several sizes are -1, only those from the source of the highest precedence stay open; a default's -1 becomes 1.
void keep_one_open(std::vector<Factor>& factors, const config::Settings& settings) {
  config::Source highest = config::Source::schema;
  for (const Factor& factor : factors) {
    if (factor.size < 0) highest = std::max(highest, settings.origin(factor.key).source);
  }
  for (Factor& factor : factors) {
    if (factor.size < 0 && settings.origin(factor.key).source < highest) factor.size = 1;
  }
}

std::vector<Factor> factors_of(const config::Settings& settings, Level level) {
  std::vector<Factor> factors;
  for (const std::string& axis : settings.texts("mesh_axes")) {
    const std::string key = key_for(level, axis);
    if (config::find_key(key) == nullptr) {
      refuse(fmt::format("mesh axis '{}' is unknown: no key {} gives its size", shorten(axis, 80), shorten(key, 80)),
             settings.origin("mesh_axes").where, "use the axes of configs/base.yml");
    }
    factors.push_back({key, settings.integer(key)});
    if (factors.back().size == 0) {
      refuse(fmt::format("{} is 0, a size or -1 was expected", key), settings.origin(key).where);
    }
  }
  keep_one_open(factors, settings);
  return factors;
}

std::int64_t known_product(const std::vector<Factor>& factors) {
  std::int64_t product = 1;
  for (const Factor& factor : factors) {
    if (factor.size < 0) continue;
    if (product > std::numeric_limits<std::int64_t>::max() / factor.size) {
      refuse("the axis sizes multiply to more than 2^63", factor.key, "lower them");
    }
    product *= factor.size;
  }
  return product;
}

bool has_open(const std::vector<Factor>& factors) {
  return std::any_of(factors.begin(), factors.end(), [](const Factor& factor) { return factor.size < 0; });
}

// "ici_fsdp_parallelism=4 x ici_expert_parallelism=2"; sizes of 1 are left out.
std::string spelled(const std::vector<Factor>& factors) {
  std::vector<std::string> words;
  for (const Factor& factor : factors) {
    if (factor.size != 1) words.push_back(fmt::format("{}={}", factor.key, factor.size));
  }
  return words.empty() ? "all sizes 1" : join(words, " x ");
}

// That of the axis whose size is -1 by default, or of the first if the mesh lacks it.
const std::string& usual_key(const std::vector<Factor>& factors) {
  const auto usual = std::find_if(factors.begin(), factors.end(), [](const Factor& factor) {
    return factor.key == "ici_fsdp_parallelism" || factor.key == "dcn_data_parallelism";
  });
  return usual == factors.end() ? factors.front().key : usual->key;
}

// The size of one axis with which all multiply to `target`, the largest axis that allows it.
std::string size_that_fits(const std::vector<Factor>& factors, std::int64_t target) {
  const std::int64_t known = known_product(factors);
  const Factor* best = nullptr;
  for (const Factor& factor : factors) {
    if (factor.size > 1 && target % (known / factor.size) == 0 && (best == nullptr || factor.size > best->size)) best = &factor;
  }
  return best == nullptr ? "" : fmt::format("{}={}, or ", best->key, target / (known / best->size));
}

// The keys that make slices of the machine's devices, if the sizes within slices and between them are meant for smaller slices than it
// has; else nothing. Other engines count the devices of all slices, and take a node for a slice.
std::string slices_that_fit(const std::vector<Factor>& ici, const std::vector<Factor>& dcn, const Topology& target) {
  const std::int64_t slices = known_product(dcn), within = known_product(ici);
  if (slices <= target.slices || target.devices() % slices != 0) return "";
  const std::int64_t per_slice = target.devices() / slices;
  if (has_open(ici) ? per_slice % within != 0 : per_slice != within) return "";
  const std::vector<std::string> machines = machines_like(target.name, per_slice, per_slice);
  return machines.empty() ? "" : fmt::format("compile_topology={} compile_topology_num_slices={}", machines.front(), slices);
}

// Fills in the one open size, and refuses sizes whose product is not `target`. `other_slices`: keys of a machine on which they fit, or
// nothing.
void close_factors(std::vector<Factor>& factors, std::int64_t target, std::string_view unit, const std::string& target_name,
                   const std::string& other_slices) {
  const auto open = std::count_if(factors.begin(), factors.end(), [](const Factor& f) { return f.size < 0; });
  const std::string given = spelled(factors);
  if (open > 1) refuse(fmt::format("{} axes are -1 ({}), at most one can take what is left", open, given), "the mesh");
  const std::int64_t known = known_product(factors);
  const bool fits = open == 1 ? target % known == 0 : target == known;
  if (!fits) {
    const bool is_one = given.find(" x ") == std::string::npos && given.find('=') != std::string::npos;
    refuse(fmt::format("{} {} {}{}, {} has {}", given, is_one ? "makes" : "make", open == 1 ? "a multiple of " : "", known, target_name,
                       counted(target, unit)),
           "the mesh",
           !other_slices.empty()
               ? other_slices + ", as sizes between slices need slices"
               : (open == 0 ? size_that_fits(factors, target) : "") +
                     (open == 0 && unit == "slice" ? fmt::format("compile_topology_num_slices={}, or ", known) : "") +
                     (open == 1 ? fmt::format("choose sizes whose product divides {}", target)
                                : fmt::format("{}=-1 to take what is left, or choose sizes that multiply to it", usual_key(factors))));
  }
  for (Factor& factor : factors) {
    if (factor.size < 0) factor.size = target / known;
  }
}

// Refuses a size above 1 for an axis that the chosen mesh lacks, which would be ignored silently otherwise.
void check_unused_sizes(const config::Settings& settings) {
  const std::vector<std::string>& axes = settings.texts("mesh_axes");
  std::set<std::string> known;
  for (const std::string& axis : axes) {
    known.insert(key_for(Level::ici, axis));
    known.insert(key_for(Level::dcn, axis));
  }
  for (const config::Topic& topic : config::topics()) {
    for (const config::Key& key : topic.keys) {
      if (!sizes_axis(key.name) || known.contains(std::string(key.name)) || settings.integer(key.name) <= 1) continue;
      refuse(fmt::format("{}={}, but the mesh has only the axes {}", key.name, settings.integer(key.name),
                         join(axes, ", ")),
             settings.origin(key.name).where, "choose another rule set, or leave the key out");
    }
  }
}

void check_axes(const config::Settings& settings) {
  const std::vector<std::string>& axes = settings.texts("mesh_axes");
  const std::string& where = settings.origin("mesh_axes").where;
  if (axes.empty()) refuse("mesh_axes is empty, at least one axis was expected", where);
  if (axes.size() > kMostAxes) refuse(fmt::format("{} mesh axes, at most {} are held", axes.size(), kMostAxes), where);
  std::map<std::string, std::string> by_key;
  for (const std::string& axis : axes) {
    const auto [other, is_new] = by_key.emplace(key_for(Level::ici, axis), axis);
    if (is_new) continue;
    if (other->second == axis) refuse(fmt::format("mesh axis '{}' stands twice", shorten(axis, 80)), where, "name it once");
    refuse(fmt::format("mesh axes '{}' and '{}' both take their size from {}", other->second, axis, other->first), where,
           "name one of them");
  }
}

// Refuses rules that name an axis that no mesh can have, as a typing error. An axis that only this mesh lacks is ignored in rules.
void check_rules(const config::Settings& settings) {
  for (const config::AxisRule& rule : settings.rules("logical_axis_rules")) {
    for (const std::string& axis : rule.axes) {
      if (config::find_key(key_for(Level::ici, axis)) != nullptr) continue;
      const std::vector<std::string> close = nearest(axis, settings.texts("mesh_axes"));
      refuse(fmt::format("the rule of {} names the axis '{}', which no mesh has", shorten(rule.label, 80),
                         shorten(axis, 80)),
             rule.where, close.empty() ? "use the axes of configs/base.yml" : "did you mean " + join(close, ", ") + "?");
    }
  }
}

std::int64_t slices_of_this_machine(const config::Settings& settings) {
  for (const char* key : {"compile_topology_num_slices", "num_slices"}) {
    if (settings.integer(key) > 0) return settings.integer(key);
  }
  return known_product(factors_of(settings, Level::dcn));
}

}  // namespace

bool sizes_axis(std::string_view key) {
  return (key.starts_with("ici_") || key.starts_with("dcn_")) && key.ends_with("_parallelism");
}

std::string key_for(Level level, std::string_view axis) {
  const std::string_view word = axis == "stage" ? "pipeline" : axis == "model" ? "tensor" : axis;
  return fmt::format("{}_{}_parallelism", level == Level::ici ? "ici" : "dcn", word);
}

Mesh with_moved(const Mesh& mesh, AxisIndex from, AxisIndex to, std::int64_t times, Level level) {
  std::vector<Axis> axes = mesh.axes();
  axes[from].size_at(level) /= times;
  axes[to].size_at(level) *= times;
  return Mesh(std::move(axes));
}

std::vector<std::string> keys_between(const Mesh& from, const Mesh& to) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < from.axes().size(); ++i) {
    const Axis& before = from.axes()[i];
    const Axis& after = to.axes()[i];
    if (before.ici != after.ici) keys.push_back(fmt::format("{}={}", key_for(Level::ici, after.name), after.ici));
    if (before.dcn != after.dcn) keys.push_back(fmt::format("{}={}", key_for(Level::dcn, after.name), after.dcn));
  }
  return keys;
}

Mesh::Mesh(std::vector<Axis> axes) : axes_(std::move(axes)) {}

std::optional<AxisIndex> Mesh::find(std::string_view name) const {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == name) return static_cast<AxisIndex>(i);
  }
  return std::nullopt;
}

std::int64_t Mesh::size_of(std::string_view name) const {
  const auto index = find(name);
  return index ? axes_[*index].size() : 1;
}

std::int64_t Mesh::devices() const {
  std::int64_t product = 1;
  for (const Axis& axis : axes_) product *= axis.size();
  return product;
}

std::vector<std::int64_t> Mesh::coordinates_of(std::int64_t device) const {
  std::vector<std::int64_t> coordinates(axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0;) {
    coordinates[i] = device % axes_[i].ici;
    device /= axes_[i].ici;
  }
  for (std::size_t i = axes_.size(); i-- > 0;) {
    coordinates[i] += device % axes_[i].dcn * axes_[i].ici;
    device /= axes_[i].dcn;
  }
  return coordinates;
}

std::int64_t Mesh::device_at(const std::vector<std::int64_t>& coordinates) const {
  std::int64_t within = 0;
  std::int64_t slice = 0;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    within = within * axes_[i].ici + coordinates[i] % axes_[i].ici;
    slice = slice * axes_[i].dcn + coordinates[i] / axes_[i].ici;
  }
  std::int64_t slice_devices = 1;
  for (const Axis& axis : axes_) slice_devices *= axis.ici;
  return slice * slice_devices + within;
}

namespace {

Precision precision_of(const config::Settings& settings) {
  const std::string& word = settings.text("matmul_precision");
  if (word == "high") return Precision::high;
  return word == "highest" || word == "float32" ? Precision::highest : Precision::lowest;
}

}  // namespace

Topology target_of(const config::Settings& settings) {
  check_axes(settings);
  const std::string& name = settings.text("compile_topology");
  if (!name.empty()) {
    const std::int64_t slices = settings.integer("compile_topology_num_slices");
    if (slices == 0)
      refuse("compile_topology_num_slices is 0, a number of slices or -1 was expected",
             settings.origin("compile_topology_num_slices").where);
    Topology target = find_topology(name, slices > 0 ? slices : 1);
    target.chip.precision = precision_of(settings);
    return target;
  }
  const std::vector<Factor> ici = factors_of(settings, Level::ici);
  const std::int64_t known = known_product(ici);
  const std::int64_t slices = slices_of_this_machine(settings);
  const std::int64_t share = std::max<std::int64_t>(1, kDevicesOfThisMachine / slices);
  const std::int64_t per_slice = has_open(ici) && share % known == 0 ? share : known;
  return find_topology(fmt::format("cpu-{}", per_slice), slices, "the mesh");
}

Mesh build_mesh(const config::Settings& settings, const Topology& target) {
  check_axes(settings);
  check_rules(settings);
  check_unused_sizes(settings);
  std::vector<Factor> ici = factors_of(settings, Level::ici);
  std::vector<Factor> dcn = factors_of(settings, Level::dcn);
  const std::string other_slices = settings.text("compile_topology").empty() ? "" : slices_that_fit(ici, dcn, target);
  close_factors(ici, target.devices_per_slice, "device", "a slice of " + target.name, other_slices);
  close_factors(dcn, target.slices, "slice", target.name, other_slices);
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < ici.size(); ++i) axes.push_back({settings.texts("mesh_axes")[i], ici[i].size, dcn[i].size});
  return Mesh(std::move(axes));
}

}  // namespace moesh::mesh
