#include "mesh/sum_order.h"

#include <algorithm>

namespace moesh::mesh {

std::vector<std::int64_t> sum_steps(const Mesh& mesh, AxisList axes) {
  std::sort(axes.begin(), axes.end());
  std::vector<std::int64_t> steps;
  for (const AxisIndex axis : axes) {
    for (const std::int64_t size : {mesh.axis(axis).dcn, mesh.axis(axis).ici}) {
      if (size > 1) steps.push_back(size);
    }
  }
  return steps;
}

}  // namespace moesh::mesh
