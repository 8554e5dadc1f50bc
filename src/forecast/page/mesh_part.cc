#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/core.h>

#include "base/text.h"
#include "cost/network.h"
#include "forecast/page/drawing.h"
#include "forecast/page/parts.h"
#include "forecast/report.h"
#include "page/html.h"

namespace moesh::forecast {
namespace {

using mesh::AxisIndex;
using page::escaped;

constexpr std::int64_t kMostDots = 24, kMostColumns = 64, kMostRows = 32, kMostBlocks = 8;

// All collectives over the same axes.
struct Exchanged {
  mesh::AxisList axes;
  std::string name;
  std::int64_t group = 1;
  SentTotal total;
  std::map<std::string, SentTotal> kinds;
  double direct = 0;  // the part of the bytes that goes directly from each device to each other one
};

std::vector<Exchanged> exchanged_by(const Course& course) {
  std::map<std::string, Exchanged> found;
  for (const Sent& sent : course.shown.forecast.collectives) {
    Exchanged& one = found[sent.axes];
    one.axes = sent.what.axes;
    one.name = sent.axes;
    one.group = sent.what.group;
    one.total.add(sent);
    one.kinds[sent.kind].add(sent);
    if (sent.what.kind == graph::ReshardOf::Kind::all_to_all) one.direct += sent.what.total_wire_bytes();
  }
  std::vector<Exchanged> all;
  for (auto& [name, one] : found) all.push_back(std::move(one));
  std::stable_sort(all.begin(), all.end(),
                   [](const Exchanged& a, const Exchanged& b) { return a.total.seconds > b.total.seconds; });
  return all;
}

std::string domain_words(mesh::Domain domain) {
  switch (domain) {
    case mesh::Domain::chip: return "within a chip";
    case mesh::Domain::node: return "within a node";
    case mesh::Domain::slice: return "within a slice";
    case mesh::Domain::all: return "between slices or nodes";
  }
  return "";
}

// "rings of 8 x 4 on the torus"
std::string torus_words(const std::vector<cost::Line>& lines) {
  std::vector<std::string> sizes;
  bool are_rings = true;
  for (const cost::Line& one : lines) {
    sizes.push_back(std::to_string(one.devices));
    are_rings = are_rings && one.is_ring;
  }
  const std::string kind = are_rings ? "ring" : "line";
  return lines.size() == 1 ? fmt::format("a {} of {} on the torus", kind, sizes.front())
                           : fmt::format("{}s of {} on the torus", kind, join(sizes, " \u00d7 "));
}

// "ici within a slice: rings of 8 x 4 on the torus, 40 GB/s a port"
std::string level_words(const cost::Level& level, const mesh::Topology& target) {
  const mesh::Link& link = target.chip.links[level.link];
  const std::string devices = counted(level.devices, "device");
  const std::string shape = level.kind == cost::Level::Kind::torus    ? torus_words(level.lines)
                            : level.kind == cost::Level::Kind::direct ? devices + " linked each to each"
                                                                      : devices + " on a switch";
  return fmt::format("{} {}: {}, {:.4g} GB/s a {}", link.kind, domain_words(link.domain), shape,
                     level.bytes_per_second / 1e9, level.kind == cost::Level::Kind::switched ? "device" : "port");
}

struct Point {
  double x = 0, y = 0;
};

Point on_circle(std::int64_t i, std::int64_t of, double radius) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(of) - std::numbers::pi / 2;
  return {90 + radius * std::cos(angle), 90 + radius * std::sin(angle)};
}

// The width of strokes is proportional to bytes. A group with more devices than fit is drawn with fewer.
std::string group_picture(const Exchanged& one, double most_bytes, const std::string& colour) {
  constexpr double kRadius = 72, kWidest = 15;
  const std::int64_t dots = std::min(one.group, kMostDots);
  const double around = one.total.wire_bytes - one.direct;
  std::string made;
  if (one.direct > 0) {
    const double width = std::max(0.06, kWidest * one.direct / most_bytes / static_cast<double>(dots - 1) * 1.6);
    for (std::int64_t i = 0; i < dots; ++i) {
      for (std::int64_t k = i + 1; k < dots; ++k) {
        const Point a = on_circle(i, dots, kRadius), b = on_circle(k, dots, kRadius);
        made += fmt::format(
            "<line class=\"{} chord\" stroke-width=\"{:.2f}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" "
            "y2=\"{:.1f}\"/>",
            colour, width, a.x, a.y, b.x, b.y);
      }
    }
  }
  if (around > 0)
    made += fmt::format("<circle class=\"{} ring\" stroke-width=\"{:.2f}\" cx=\"90\" cy=\"90\" r=\"{}\"/>", colour,
                        std::max(0.8, kWidest * around / most_bytes), kRadius);
  for (std::int64_t i = 0; i < dots; ++i) {
    const Point at = on_circle(i, dots, kRadius);
    made += fmt::format("<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"/>", at.x, at.y, dots > 12 ? 4 : 6);
  }
  const std::string more = one.group > dots ? fmt::format(", {} of them drawn", dots) : "";
  return fmt::format("<svg class=\"group\" viewBox=\"0 0 180 180\" role=\"img\" aria-label=\"{}{}\">{}</svg>",
                     counted(one.group, "device"), more, made);
}

std::string card(const Shown& shown, const Course& course, const Exchanged& one, double most_bytes,
                 const cost::Network& network) {
  const Forecast& f = course.shown.forecast;
  const std::string colour = axes_class(shown, one.name);
  std::string made = fmt::format("<figure class=\"card\">{}<div><h3><i class=\"key {}\"></i>{}</h3>",
                                 group_picture(one, most_bytes, colour), colour, escaped(one.name));
  const std::int64_t groups = course.shown.plan.mesh.devices() / one.group;
  made += fmt::format(
      "<p class=\"big\">{} sent by each device</p><p>{}, of which kernels wait for {}: {:.1f}% of the step. {} of "
      "{}{}.</p><ul>",
      human_bytes(one.total.wire_bytes), human_seconds(one.total.seconds), human_seconds(one.total.exposed),
      100 * one.total.exposed / f.seconds,
      counted(groups, "group"), counted(one.group, "device"),
      one.group > kMostDots ? fmt::format(", {} drawn", kMostDots) : "");
  for (const auto& [kind, total] : one.kinds)
    made += fmt::format("<li>{}: {} in {}</li>", escaped(kind), human_bytes(total.wire_bytes), counted(total.runs, "run"));
  made += "</ul>";
  for (const cost::Level& level : network.group(one.axes))
    made += fmt::format("<p class=\"small\">{}</p>", escaped(level_words(level, course.shown.target)));
  return made + "</div></figure>\n";
}

// How the axes are drawn: the larger of the last two as columns of a block, the other as its rows, the rest as blocks.
struct Grid {
  std::vector<AxisIndex> across;  // the axis that is drawn as columns; at most one
  std::vector<AxisIndex> down;    // the axis that is drawn as rows; at most one
  std::vector<AxisIndex> in_blocks;
  std::int64_t columns = 1, rows = 1, blocks = 1;

  std::int64_t shown_columns() const { return std::min(columns, kMostColumns); }
  std::int64_t shown_rows() const { return std::min(rows, kMostRows); }
  std::int64_t shown_blocks() const { return std::min(blocks, kMostBlocks); }
  bool is_whole() const { return shown_columns() == columns && shown_rows() == rows && shown_blocks() == blocks; }
};

Grid grid_of(const mesh::Mesh& mesh) {
  Grid grid;
  for (std::size_t i = 0; i < mesh.axes().size(); ++i) {
    if (mesh.axes()[i].size() > 1) grid.in_blocks.push_back(static_cast<AxisIndex>(i));
  }
  const auto take = [&](std::vector<AxisIndex>& to, std::int64_t& size) {
    if (grid.in_blocks.empty()) return;
    to = {grid.in_blocks.back()};
    size = mesh.axis(to.front()).size();
    grid.in_blocks.pop_back();
  };
  take(grid.across, grid.columns);
  take(grid.down, grid.rows);
  if (grid.rows > grid.columns) {
    std::swap(grid.across, grid.down);
    std::swap(grid.columns, grid.rows);
  }
  for (const AxisIndex axis : grid.in_blocks) grid.blocks *= mesh.axis(axis).size();
  return grid;
}

// The only axis along which a block differs from the first one; nothing if there are several such axes.
std::optional<AxisIndex> block_axis(const mesh::Mesh& mesh, const Grid& grid, std::int64_t block) {
  for (std::size_t i = grid.in_blocks.size(); i-- > 0;) {
    const std::int64_t size = mesh.axis(grid.in_blocks[i]).size();
    if (block % size != 0) return block < size ? std::optional(grid.in_blocks[i]) : std::nullopt;
    block /= size;
  }
  return std::nullopt;
}

// The class of a device's cell: the colour of the axis if that is the only one along which it differs from the first device.
std::string cell_class(const Shown& shown, const mesh::Mesh& mesh, const Grid& grid, std::int64_t block,
                       std::int64_t row, std::int64_t column) {
  const int differing = (block > 0 ? 1 : 0) + (row > 0 ? 1 : 0) + (column > 0 ? 1 : 0);
  if (differing == 0) return "first";
  if (differing > 1) return "cell";
  const std::optional<AxisIndex> axis = column > 0 ? grid.across.front()
                                        : row > 0  ? grid.down.front()
                                                   : block_axis(mesh, grid, block);
  return axis ? axes_class(shown, mesh.axis(*axis).name) : "cell";
}

std::string axes_words(const mesh::Mesh& mesh) {
  std::vector<std::string> words;
  for (const mesh::Axis& axis : mesh.axes()) {
    if (axis.size() == 1) continue;
    words.push_back(axis.dcn > 1 ? fmt::format("{} {} ({} across slices)", axis.name, axis.size(), axis.dcn)
                                 : fmt::format("{} {}", axis.name, axis.size()));
  }
  return words.empty() ? "one device" : join(words, " \u00d7 ");
}

std::string grid_picture(const Shown& shown, const Course& course) {
  const mesh::Mesh& mesh = course.shown.plan.mesh;
  const Grid grid = grid_of(mesh);
  const std::int64_t columns = grid.shown_columns(), rows = grid.shown_rows(), blocks = grid.shown_blocks();
  const double room = 1010.0 / static_cast<double>(blocks) - 12;
  const double cell = std::clamp(room / static_cast<double>(columns), 1.5, 26.0);
  const double gap = cell > 6 ? 2 : 0.5, left = grid.down.empty() ? 4 : 120, top = 26;
  std::string made;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const double block_x = left + static_cast<double>(block) * (cell * static_cast<double>(columns) + 12);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        const Box box{block_x + static_cast<double>(column) * cell, top + static_cast<double>(row) * cell, cell - gap,
                      cell - gap};
        made += rect(box, cell_class(shown, mesh, grid, block, row, column));
      }
    }
  }
  const auto name = [&](AxisIndex axis) {
    return fmt::format("{} = {}", mesh.axis(axis).name, mesh.axis(axis).size());
  };
  for (const AxisIndex axis : grid.across) made += label(left, top - 9, name(axis) + " \u2192", "strong");
  for (const AxisIndex axis : grid.down) made += label(left - 10, top + 12, name(axis) + " \u2193", "strong", "end");
  const double bottom = top + cell * static_cast<double>(rows);
  std::string more;
  if (!grid.in_blocks.empty()) {
    std::vector<std::string> names;
    for (const AxisIndex axis : grid.in_blocks) names.push_back(name(axis));
    more = "Blocks: " + join(names, " \u00d7 ") + ". ";
  }
  if (!grid.is_whole())
    more +=
        fmt::format("{} of {} devices are drawn.", with_commas(columns * rows * blocks), with_commas(mesh.devices()));
  if (!more.empty()) made += label(left, bottom + 14, more);
  const double right = left + static_cast<double>(blocks) * (cell * static_cast<double>(columns) + 12);
  return svg_of_width(std::max(right, left + 6.5 * display_width(more)), bottom + (more.empty() ? 8 : 22),
                      axes_words(mesh), made);
}

std::string slices_words(const mesh::Topology& target) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : target.grid) sizes.push_back(std::to_string(size));
  const bool is_grid = std::holds_alternative<mesh::GridSizes>(target.chip.sizes);
  const std::string slice =
      is_grid                   ? fmt::format("a {} torus of chips{}", join(sizes, " \u00d7 "),
                            target.chip.devices_per_chip > 1
                                                  ? fmt::format(" with {} devices each", target.chip.devices_per_chip)
                                                  : "")
      : target.grid.size() == 2 ? fmt::format("{} nodes of {}", target.grid[0], counted(target.grid[1], "device"))
                                : counted(target.devices_per_slice, "device");
  return target.slices == 1 ? slice : fmt::format("{} of {}", counted(target.slices, "slice"), slice);
}

// "fsdp 32 x expert 8, on Google TPU v5p: a 4 x 8 x 8 torus of chips"
std::string mesh_words(const Course& course) {
  return fmt::format("{}, on {}: {}", axes_words(course.shown.plan.mesh), course.shown.target.chip.title,
                     slices_words(course.shown.target));
}

bool have_one_mesh(const Shown& shown) {
  return std::all_of(shown.courses.begin(), shown.courses.end(),
                     [&](const Course& course) { return mesh_words(course) == mesh_words(shown.courses[0]); });
}

}  // namespace

std::string mesh_part(const Shown& shown) {
  double most_bytes = 0;
  for (const Course& course : shown.courses) {
    for (const Exchanged& one : exchanged_by(course)) most_bytes = std::max(most_bytes, one.total.wire_bytes);
  }
  std::string made = "<section id=\"mesh\"><h2>Mesh, and who exchanges how much with whom</h2>\n";
  for (std::size_t i = 0; i < shown.courses.size(); ++i) {
    if (i > 0 && mesh_words(shown.courses[i]) == mesh_words(shown.courses[0])) continue;  // its mesh is drawn already
    made += fmt::format("<figure><figcaption>{}{}</figcaption>{}</figure>\n",
                        have_one_mesh(shown) ? "" : name_html(shown, i), escaped(mesh_words(shown.courses[i])),
                        grid_picture(shown, shown.courses[i]));
  }
  if (most_bytes == 0) return made + "<p class=\"note\">Nothing is exchanged.</p></section>\n";
  made +=
      "<p class=\"note\">The first cell is the first device; those of a colour differ from it along that axis alone. "
      "Below, rings are gathers, reductions and "
      "permutations, chords are all-to-alls; strokes are as wide as bytes are many.</p><div class=\"beside\">\n";
  for (std::size_t i = 0; i < shown.courses.size(); ++i) {
    const Course& course = shown.courses[i];
    const cost::Network network(course.shown.plan.mesh, course.shown.target);
    made += fmt::format("<div>{}<div class=\"cards\">", name_html(shown, i));
    for (const Exchanged& one : exchanged_by(course)) made += card(shown, course, one, most_bytes, network);
    made += "</div></div>\n";
  }
  return made + "</div></section>\n";
}

}  // namespace moesh::forecast
