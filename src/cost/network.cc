#include "cost/network.h"

#include <algorithm>
#include <numeric>

namespace moesh::cost {
namespace {

using mesh::Domain;
using sharding::AxisIndex;
using sharding::AxisList;

// What is left of a slice, not taken by an axis yet.
struct Free {
  std::int64_t chip = 1;           // devices of a chip
  std::int64_t node = 1;           // devices of a node
  std::vector<std::int64_t> dims;  // chips along each dim of a torus
};

Free free_of(const mesh::Topology& target) {
  if (std::holds_alternative<mesh::GridSizes>(target.chip.sizes)) return {target.chip.devices_per_chip, 1, target.grid};
  if (std::holds_alternative<mesh::NodeSizes>(target.chip.sizes)) return {1, target.grid.back(), {}};
  return {};
}

std::int64_t take(std::int64_t& from, std::int64_t& wanted) {
  const std::int64_t taken = std::gcd(from, wanted);
  from /= taken;
  wanted /= taken;
  return taken;
}

class Torus {
 public:
  Torus(const mesh::Topology& target, std::vector<std::int64_t> dims) : target_(target), free_(std::move(dims)) {}

  // Takes whole dims, as many of them as multiply to the wanted number, so that there are many ports; if there are none, parts of dims,
  // starting at the last.
  std::vector<Line> take_lines(std::int64_t& wanted) {
    std::vector<Line> lines;
    for (const std::size_t dim : whole_dims(wanted)) lines.push_back(take_from(dim, wanted));
    for (std::size_t dim = free_.size(); dim-- > 0 && wanted > 1;) {
      if (std::gcd(free_[dim], wanted) > 1) lines.push_back(take_from(dim, wanted));
    }
    return lines;
  }

 private:
  std::vector<std::size_t> whole_dims(std::int64_t wanted) const {
    std::vector<std::size_t> best;
    for (std::size_t choice = 1; choice < (std::size_t{1} << free_.size()); ++choice) {
      std::int64_t chips = 1;
      std::vector<std::size_t> dims;
      for (std::size_t dim = 0; dim < free_.size(); ++dim) {
        if ((choice >> dim & 1) == 0) continue;
        const bool is_whole = free_[dim] == target_.grid[dim] && free_[dim] > 1;
        chips *= is_whole ? free_[dim] : 0;
        dims.push_back(dim);
      }
      if (chips == wanted && dims.size() > best.size()) best = dims;
    }
    return best;
  }

  Line take_from(std::size_t dim, std::int64_t& wanted) {
    const std::int64_t whole = target_.grid[dim], stride = whole / free_[dim];
    const std::int64_t devices = take(free_[dim], wanted);
    return {dim, devices, stride, target_.wrap[dim] && stride * devices == whole};
  }

  const mesh::Topology& target_;
  std::vector<std::int64_t> free_;
};

// Adds a line. Two parts of a dim, one within the other, are one longer part of it. If chips of other groups lie between them, the hops
// from one device to the next are those of the mean.
void join(std::vector<Line>& lines, const Line& line) {
  for (Line& known : lines) {
    if (known.dim != line.dim) continue;
    const std::int64_t span = std::max(known.stride * known.devices, line.stride * line.devices);
    known.devices *= line.devices;
    known.stride = span / known.devices;
    known.is_ring = known.is_ring || line.is_ring;
    return;
  }
  lines.push_back(line);
}

}  // namespace

std::int64_t devices_of(const Group& group) {
  std::int64_t devices = 1;
  for (const Level& level : group) devices *= level.devices;
  return devices;
}

Network::Network(const mesh::Mesh& mesh, const mesh::Topology& target) : target_(target), parts_(mesh.axes().size()) {
  Free free = free_of(target);
  Torus torus(target, free.dims);
  for (std::size_t axis = mesh.axes().size(); axis-- > 0;) {
    std::vector<Part>& parts = parts_[axis];
    const auto add = [&](Domain domain, std::int64_t devices, std::vector<Line> lines) {
      if (devices > 1) parts.push_back({domain, devices, std::move(lines)});
    };
    std::int64_t left = mesh.axes()[axis].ici;
    add(Domain::chip, take(free.chip, left), {});
    add(Domain::node, take(free.node, left), {});
    const std::int64_t before = left;
    std::vector<Line> lines = torus.take_lines(left);
    add(Domain::slice, before / left, std::move(lines));
    add(Domain::slice, left, {});
    add(Domain::all, mesh.axes()[axis].dcn, {});
  }
}

// A level with the nearest link that reaches the domain.
Level Network::level_of(Domain domain, bool on_torus) const {
  const std::vector<mesh::Link>& links = target_.chip.links;
  const auto link = std::find_if(links.begin(), links.end(), [&](const mesh::Link& l) { return l.domain >= domain; });
  Level level;
  level.link = static_cast<std::size_t>(link - links.begin());
  level.latency_seconds = link->latency_seconds;
  const bool is_direct = link->domain == domain && domain <= Domain::node;
  if (link->ports > 1 && (on_torus || is_direct)) level.kind = on_torus ? Level::Kind::torus : Level::Kind::direct;
  level.bytes_per_second =
      link->reached * link->bytes_per_second / (level.kind == Level::Kind::switched ? 1 : static_cast<double>(link->ports));
  return level;
}

Group Network::make(const AxisList& axes) const {
  Group group;
  for (const Domain domain : {Domain::chip, Domain::node, Domain::slice, Domain::all}) {
    std::int64_t devices = 1;
    std::vector<Line> lines;
    bool on_torus = domain == Domain::slice;
    for (const AxisIndex axis : axes) {
      for (const Part& part : parts_[axis]) {
        if (part.domain != domain) continue;
        devices *= part.devices;
        on_torus = on_torus && !part.lines.empty();
        for (const Line& line : part.lines) join(lines, line);
      }
    }
    if (devices == 1) continue;
    group.push_back(level_of(domain, on_torus));
    group.back().devices = devices;
    if (group.back().kind == Level::Kind::torus) group.back().lines = std::move(lines);
  }
  return group;
}

const Group& Network::group(const AxisList& axes) const {
  AxisList sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  const auto [entry, is_new] = groups_.try_emplace(std::move(sorted));
  if (is_new) entry->second = make(entry->first);
  return entry->second;
}

}  // namespace moesh::cost
