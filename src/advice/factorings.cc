#include "advice/factorings.h"

#include <algorithm>
#include <cmath>

#include "train/offload.h"

namespace moesh::advice {
namespace {

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_named(const std::vector<config::AxisRule>& rules, const std::string& axis) {
  return std::any_of(rules.begin(), rules.end(), [&](const config::AxisRule& rule) {
    return is_among(rule.axes, axis);
  });
}

bool has_use(const session::Session& session, const std::string& axis) {
  return is_named(session.layout.rules, axis) && (axis != "expert" || session.shape.is_moe());
}

// States that differ by less than a tenth, such as by the weights of norms, count as equal.
std::int64_t rank_of_state(std::int64_t bytes) { return std::llround(std::log(static_cast<double>(bytes)) / std::log(1.1)); }

// How far the sizes of tensor and context are from those in the request, as powers of two.
double change_of(const mesh::Mesh& from, const mesh::Mesh& to) {
  double change = 0;
  for (const char* axis : {"tensor", "context"})
    change += std::abs(std::log2(static_cast<double>(to.size_of(axis)) / static_cast<double>(from.size_of(axis))));
  return change;
}

// Enumerates the possible sizes of the axes at one level (within or between slices); those at the other level stay as they are.
class Division {
 public:
  Division(const session::Session& session, const Freedom& freedom, mesh::Level level)
      : session_(session), freedom_(freedom), level_(level) {}

  std::vector<std::vector<mesh::Axis>> all(const std::vector<mesh::Axis>& axes) {
    axes_ = axes;
    made_.clear();
    std::int64_t devices = 1;
    for (mesh::Axis& axis : axes_) devices *= axis.size_at(level_);
    divide(0, devices);
    return std::move(made_);
  }

 private:
  bool may_grow(const std::string& axis) const {
    return is_among(level_ == mesh::Level::ici ? freedom_.growing : freedom_.growing_between, axis) && has_use(session_, axis);
  }

  void divide(std::size_t next, std::int64_t left) {
    if (next == axes_.size()) {
      if (left == 1) made_.push_back(axes_);
      return;
    }
    mesh::Axis& axis = axes_[next];
    std::int64_t& size = axis.size_at(level_);
    const std::int64_t here = size;
    const bool stays = is_among(freedom_.fixed, mesh::key_for(level_, axis.name));
    const std::int64_t most = !stays && may_grow(axis.name) ? left : std::min(here, left);
    for (size = stays ? here : 1; size <= most; ++size) {
      if (left % size == 0) divide(next + 1, left / size);
    }
    size = here;
  }

  const session::Session& session_;
  const Freedom& freedom_;
  mesh::Level level_;
  std::vector<mesh::Axis> axes_;
  std::vector<std::vector<mesh::Axis>> made_;
};

}  // namespace

std::optional<std::int64_t> state_on(const session::Session& session, const mesh::Mesh& mesh) {
  const sharding::Layout& layout = session.layout;
  const config::Settings& settings = session.loaded.settings;
  const bool spreads_moments = settings.boolean("shard_optimizer_over_data");
  const bool has_moments_on_host = train::keeps_moments_on_host(settings, session.target.chip);
  std::int64_t bytes = 0;
  for (const auto* tensors : {&layout.parameters, &layout.moments}) {
    for (const sharding::LaidTensor& tensor : *tensors) {
      sharding::Spec spec = sharding::lay(tensor.constraint, layout.rules, mesh);
      if (spreads_moments && tensors == &layout.moments) spec = sharding::over_data(tensor.shape, spec, mesh);
      if (!sharding::divides(tensor.shape, spec, mesh)) return std::nullopt;
      if (tensors == &layout.moments && has_moments_on_host) continue;
      bytes += sharding::shard_bytes(tensor.shape, tensor.dtype, spec, mesh);
    }
  }
  return bytes;
}

bool takes_rows(const sharding::Layout& layout, const mesh::Mesh& mesh, std::int64_t rows) {
  Shape shape = layout.input.shape;
  shape.front() = rows;
  return sharding::divides(shape, sharding::lay(layout.input.constraint, layout.rules, mesh), mesh);
}

std::vector<Factoring> factorings(const session::Session& session, const Freedom& freedom) {
  std::vector<std::vector<mesh::Axis>> divisions{session.mesh.axes()};
  if (!freedom.growing_between.empty()) divisions = Division(session, freedom, mesh::Level::dcn).all(session.mesh.axes());
  std::vector<Factoring> found;
  for (const std::vector<mesh::Axis>& between : divisions) {
    for (std::vector<mesh::Axis>& axes : Division(session, freedom, mesh::Level::ici).all(between)) {
      mesh::Mesh mesh(std::move(axes));
      if (mesh::keys_between(session.mesh, mesh).empty()) continue;
      if (const auto bytes = state_on(session, mesh)) found.push_back({std::move(mesh), *bytes});
    }
  }
  std::stable_sort(found.begin(), found.end(), [&](const Factoring& a, const Factoring& b) {
    return std::make_pair(rank_of_state(a.state_bytes), change_of(session.mesh, a.mesh)) <
           std::make_pair(rank_of_state(b.state_bytes), change_of(session.mesh, b.mesh));
  });
  return found;
}

}  // namespace moesh::advice
