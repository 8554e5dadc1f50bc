#include "forecast/page/page.h"

#include <algorithm>

#include <fmt/core.h>

#include "forecast/page/look.h"
#include "forecast/page/parts.h"

namespace moesh::forecast {
namespace {

using page::escaped;

constexpr std::size_t kPlanColours = 6;

// Colours go first to the axes whose collectives take the most time, then to the single mesh axes over which nothing is exchanged. All
// that come after the last colour share it.
AxesColours colours_of(const std::vector<Course>& courses) {
  std::map<std::string, double> seconds;
  for (const Course& course : courses) {
    for (const Sent& sent : course.shown.forecast.collectives) seconds[sent.axes] += sent.seconds;
    for (const mesh::Axis& axis : course.shown.plan.mesh.axes()) {
      if (axis.size() > 1) seconds[axis.name] += 0;
    }
  }
  std::vector<std::pair<std::string, double>> order(seconds.begin(), seconds.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  AxesColours colours;
  for (const auto& [axes, unused] : order) colours.emplace(axes, std::min(colours.size(), kAxesColours - 1));
  return colours;
}

Shown shown_of(const std::vector<ShownPlan>& plans) {
  Shown shown;
  for (const ShownPlan& plan : plans) {
    shown.courses.push_back(course_of(plan));
    shown.seconds = std::max(shown.seconds, plan.forecast.seconds);
  }
  shown.colours = colours_of(shown.courses);
  return shown;
}

std::string front_html(const Front& front) {
  std::string made = fmt::format("<h1>{}</h1>\n", escaped(front.title));
  for (const std::string& sentence : front.sentences) made += fmt::format("<p>{}</p>\n", escaped(sentence));
  return front.table ? made + to_html(*front.table, true) : made;
}

}  // namespace

std::string name_html(const Shown& shown, std::size_t plan) {
  if (shown.is_one()) return "";
  return fmt::format("<span class=\"plan\"><i class=\"key p{}\"></i>{}</span>", plan % kPlanColours,
                     escaped(shown.courses[plan].shown.name));
}

std::string axes_class(const Shown& shown, const std::string& axes) {
  return fmt::format("x{}", shown.colours.at(axes));
}

std::string page_of(const Front& front, const std::vector<ShownPlan>& plans) {
  const Shown shown = shown_of(plans);
  std::string body = shown.is_one() ? "<main>\n" : "<main class=\"several\">\n";
  body += front_html(front) + figures_part(shown);
  body += "<nav>";
  for (const char* part : {"memory", "schedule", "mesh", "collectives", "tensors"})
    body += fmt::format("<a href=\"#{0}\">{0}</a>", part);
  body += "</nav>\n" + memory_part(shown) + schedule_part(shown) + mesh_part(shown) + collectives_part(shown) +
          tensors_part(shown);
  body += fmt::format(
      "<p class=\"small\">Times are predicted from the target's published figures; written by moesh {}.</p>\n</main>\n",
      MOESH_VERSION);
  return to_html(page::Page{front.title, page_style(), body, page_script()});
}

}  // namespace moesh::forecast
