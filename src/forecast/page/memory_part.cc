#include <algorithm>

#include <fmt/core.h>

#include "base/text.h"
#include "forecast/page/drawing.h"
#include "forecast/page/parts.h"
#include "forecast/report.h"
#include "page/html.h"
#include "page/scale.h"

namespace moesh::forecast {
namespace {

using page::escaped;

constexpr double kLeft = 70, kRight = kDrawn - 12;
constexpr std::size_t kBins = 540, kMostHeld = 12;

std::int64_t part_of(const Forecast& f, int component) {
  return f.memory.components[static_cast<std::size_t>(component)];
}

// A scale of bytes that reaches up to the peak and the usable memory of all plans.
page::Scale memory_scale(const Shown& shown, double from, double to) {
  double most = 0;
  for (const Course& course : shown.courses)
    most = std::max({most, static_cast<double>(course.shown.forecast.memory.peak),
                     static_cast<double>(course.shown.forecast.usable_memory)});
  return {from, to, 0, most * 1.03};
}

// Marks at round numbers, in the unit of the largest.
std::vector<std::pair<double, std::string>> byte_marks(const page::Scale& scale, int about) {
  double unit = 1;
  while (scale.most >= 1024 * unit && unit < 1e15) unit *= 1024;
  std::vector<std::pair<double, std::string>> marks;
  const std::string name = unit < 1024 ? "B" : human_bytes(unit).substr(human_bytes(unit).find(' ') + 1);
  for (const double mark : page::Scale{0, 1, 0, scale.most / unit}.marks(about))
    marks.emplace_back(mark * unit, fmt::format("{:g} {}", mark, name));
  return marks;
}

std::string bar(const Shown& shown, std::size_t plan, const page::Scale& scale, double top) {
  const Forecast& f = shown.courses[plan].shown.forecast;
  constexpr double kHeight = 40;
  std::string made;
  double begin = 0;
  for (int c = 0; c < kComponents; ++c) {
    const auto bytes = static_cast<double>(part_of(f, c));
    if (bytes == 0) continue;
    const double x = scale.at(begin), width = scale.at(begin + bytes) - x;
    const std::string words = fmt::format("{} {}", name_of(static_cast<Component>(c)), human_bytes(bytes));
    made += rect({x, top, width, kHeight}, component_class(c),
                 fmt::format("{}, {:.1f}% of the peak", words, 100 * bytes / static_cast<double>(f.memory.peak)));
    const std::string inside = fitting(std::string(name_of(static_cast<Component>(c))), width);
    if (!inside.empty())
      made += label(x + 5, top + 17, inside, "on") + label(x + 5, top + 32, fitting(human_bytes(bytes), width), "on");
    begin += bytes;
  }
  const double usable = scale.at(static_cast<double>(f.usable_memory));
  const double end = scale.at(begin);
  if (usable > end)
    made += rect({end, top, usable - end, kHeight}, "free",
                 fmt::format("{} are left", human_bytes(static_cast<double>(f.usable_memory) - begin)));
  if (usable < end)
    made += rect({usable, top - 4, end - usable, kHeight + 8}, "over",
                 fmt::format("{} are missing", human_bytes(begin - static_cast<double>(f.usable_memory))));
  made += line(usable, top - 8, usable, top + kHeight + 8, "limit");
  const std::string words = fmt::format("{} usable", human_bytes(f.usable_memory));
  return made + label(usable, top - 11, words, "strong", usable > kDrawn - 110 ? "end" : "middle");
}

std::string bars(const Shown& shown) {
  constexpr double kPitch = 84, kFirst = 34;
  const page::Scale scale = memory_scale(shown, 12, kRight);
  std::string made;
  const double bottom = kFirst + kPitch * static_cast<double>(shown.courses.size()) - 26;
  for (const auto& [bytes, words] : byte_marks(scale, 10))
    made += line(scale.at(bytes), kFirst - 6, scale.at(bytes), bottom, "grid") +
            label(scale.at(bytes), bottom + 14, words, "", bytes == 0 ? "start" : "middle");
  for (std::size_t i = 0; i < shown.courses.size(); ++i) {
    const double top = kFirst + kPitch * static_cast<double>(i);
    if (!shown.is_one()) made += label(12, top - 11, shown.courses[i].shown.name, "strong");
    made += bar(shown, i, scale, top);
  }
  return svg(bottom + 22, "memory of a device at the peak by component, beside what is usable", made);
}

std::string component_table(const Shown& shown) {
  page::Table table{{{"at the peak"}}, {}};
  for (const Course& course : shown.courses) {
    table.headings.push_back({shown.is_one() ? "bytes" : course.shown.name, true});
    table.headings.push_back({"share", true});
  }
  const auto row = [&](std::string name, const auto& bytes) {
    std::vector<page::Cell> cells{{std::move(name)}};
    for (const Course& course : shown.courses) {
      const double own = static_cast<double>(bytes(course.shown.forecast));
      cells.push_back({human_bytes(own)});
      cells.push_back({fmt::format("{:.1f}%", 100 * own / static_cast<double>(course.shown.forecast.memory.peak))});
    }
    table.rows.push_back(std::move(cells));
  };
  for (int c = 0; c < kComponents; ++c) {
    const bool is_there = std::any_of(shown.courses.begin(), shown.courses.end(),
                                      [&](const Course& course) { return part_of(course.shown.forecast, c) > 0; });
    if (is_there)
      row(std::string(name_of(static_cast<Component>(c))), [&](const Forecast& f) { return part_of(f, c); });
  }
  row("all", [](const Forecast& f) { return f.memory.peak; });
  return to_html(table);
}

// The legend of the larger components, with their bytes if there is only one plan.
Legend legend_of(const Shown& shown) {
  Legend legend;
  for (int c = 0; c < kComponents; ++c) {
    const bool is_large = std::any_of(shown.courses.begin(), shown.courses.end(), [&](const Course& course) {
      return part_of(course.shown.forecast, c) > course.shown.forecast.memory.peak / 1000;
    });
    const std::string bytes =
        shown.is_one() ? " " + human_bytes(part_of(shown.courses[0].shown.forecast, c)) : "";
    if (is_large) legend.emplace_back(component_class(c), std::string(name_of(static_cast<Component>(c))) + bytes);
  }
  return legend;
}

// The x offset at which the peak is first reached.
double peak_time(const std::vector<plan::InstructionId>& fullest, const Course& course, double column) {
  std::int64_t most = 0;
  std::size_t best = 0;
  for (std::size_t bin = 0; bin < fullest.size(); ++bin) {
    if (fullest[bin] < 0) continue;
    const std::int64_t bytes = course.held_at(fullest[bin]);
    if (bytes > most) {
      most = bytes;
      best = bin;
    }
  }
  return (static_cast<double>(best) + 0.5) * column;
}

std::string over_time(const Shown& shown, std::size_t plan) {
  constexpr double kTop = 22, kBottom = 222;
  const Course& course = shown.courses[plan];
  const Forecast& f = course.shown.forecast;
  const page::Scale y = memory_scale(shown, kBottom, kTop);
  const Bins bins{kBins, shown.seconds};
  const std::vector<plan::InstructionId> fullest = fullest_of(course, bins);
  const std::vector<Layer> layers = memory_layers(course, fullest, [&](double bytes) { return kBottom - y.at(bytes); });
  std::string made;
  for (const auto& [bytes, words] : byte_marks(y, 5))
    made += line(kLeft, y.at(bytes), kRight, y.at(bytes), "grid") + label(kLeft - 6, y.at(bytes) + 4, words, "", "end");
  const double column = (kRight - kLeft) / static_cast<double>(bins.count);
  made += stacked(layers, kLeft, column, kBottom) + time_axis(kLeft, kRight, kBottom, kBottom + 4, 0, shown.seconds);
  const double usable = y.at(static_cast<double>(f.usable_memory));
  made += line(kLeft, usable, kRight, usable, "limit") + label(kRight, usable - 5, "usable", "strong", "end");
  const double held = static_cast<double>(f.memory.peak - part_of(f, static_cast<int>(Component::gaps)));
  const double peak_x = kLeft + peak_time(fullest, course, column), peak_y = y.at(held);
  made += fmt::format("<circle class=\"peak\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>", peak_x, peak_y);
  const bool is_right = peak_x > kDrawn * 0.6;
  made += label(peak_x + (is_right ? -9 : 9), std::max(12.0, peak_y - 7),
                "peak " + human_bytes(f.memory.peak), "strong", is_right ? "end" : "");
  return svg(kBottom + 24, "memory of a device over the step by component", made);
}

std::string held_table(const Course& course) {
  page::Table table{{{"held at the peak"}, {"component"}, {"as"}, {"bytes", true}}, {}};
  const std::vector<Held>& held = course.shown.forecast.memory.held;
  for (std::size_t i = 0; i < std::min(kMostHeld, held.size()); ++i) {
    const Held& one = held[i];
    table.rows.push_back({{one.name},
                          {std::string(name_of(one.component))},
                          {one.view < 0 ? "" : words_of(course.shown.plan.view(one.view), course.shown.plan.mesh)},
                          {human_bytes(one.bytes)}});
  }
  return to_html(table);
}

}  // namespace

std::string memory_part(const Shown& shown) {
  std::string made =
      "<section id=\"memory\"><h2>Memory of a device</h2><figure><figcaption>At the peak, by component</figcaption>" +
      to_html(legend_of(shown)) + bars(shown) + "</figure>\n";
  made += "<details><summary>The same in figures</summary>" + component_table(shown) + "</details>\n";
  made += "<figure><figcaption>Over the step; a loop over layers at its fullest</figcaption>";
  for (std::size_t i = 0; i < shown.courses.size(); ++i) made += name_html(shown, i) + over_time(shown, i);
  made += "</figure>\n";
  for (std::size_t i = 0; i < shown.courses.size(); ++i) {
    const Course& course = shown.courses[i];
    made += fmt::format("<details><summary>{}The peak is {}.</summary>{}</details>\n", name_html(shown, i),
                        escaped(place_words(course.shown.plan, course.shown.forecast.memory.at)), held_table(course));
  }
  return made + "</section>\n";
}

}  // namespace moesh::forecast
