// The parts of the page of planned steps, each as HTML. Several plans are drawn on one scale.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "forecast/page/course.h"

namespace moesh::forecast {

// Which colour stands for collectives over which axes.
using AxesColours = std::map<std::string, std::size_t>;  // "fsdp+expert"
inline constexpr std::size_t kAxesColours = 6;

struct Shown {
  std::vector<Course> courses;
  AxesColours colours;
  double seconds = 0;  // of the longest step

  bool is_one() const { return courses.size() == 1; }
};

// Whether it fits, how long a step takes, and what commands make the plans.
std::string figures_part(const Shown& shown);
// At the peak by component, and over the step.
std::string memory_part(const Shown& shown);
// Kernels and links over the step, and in one layer of each pass.
std::string schedule_part(const Shown& shown);
// The mesh, and who exchanges how much with whom.
std::string mesh_part(const Shown& shown);
std::string collectives_part(const Shown& shown);
// Parameters, moments and large activations, each with its why.
std::string tensors_part(const Shown& shown);

// "before" with the mark of the plan's number; nothing where there is one plan.
std::string name_html(const Shown& shown, std::size_t plan);
std::string axes_class(const Shown& shown, const std::string& axes);

}  // namespace moesh::forecast
