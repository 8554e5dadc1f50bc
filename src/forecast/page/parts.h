// The parts of the page of planned steps, each as HTML. Several plans are drawn on one scale.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "forecast/page/course.h"

namespace moesh::forecast {

// The colours of collectives, by their axes.
using AxesColours = std::map<std::string, std::size_t>;  // "fsdp+expert"
inline constexpr std::size_t kAxesColours = 6;

struct Shown {
  std::vector<Course> courses;
  AxesColours colours;
  double seconds = 0;  // of the longest step

  bool is_one() const { return courses.size() == 1; }
};

// Whether a step fits, how long it takes, and the commands that make the plans.
std::string figures_part(const Shown& shown);
// Memory at the peak by component, and over the step.
std::string memory_part(const Shown& shown);
// Kernels and links over the step, and in one layer of each pass.
std::string schedule_part(const Shown& shown);
// The mesh, and how much data is exchanged along which axes.
std::string mesh_part(const Shown& shown);
std::string collectives_part(const Shown& shown);
// Parameters, moments and large activations, each with the reasons for its spec.
std::string tensors_part(const Shown& shown);

// The plan's name, such as "before", with its coloured mark; empty if there is only one plan.
std::string name_html(const Shown& shown, std::size_t plan);
std::string axes_class(const Shown& shown, const std::string& axes);

}  // namespace moesh::forecast
