// How long a machine takes by what was measured on it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "graph/facts.h"
#include "mesh/hardware.h"

namespace moesh::forecast {

// The name that an op's times stand under: "einsum bfloat16".
std::string timed_name(std::string_view op, DType dtype);

// The same for all ops that are bounded alike, which stand in for one that was not measured: "any product bfloat16".
std::string timed_name(graph::KernelKind kind, DType dtype);

// What an op's times are measured by: FLOPs where it has them, else bytes.
double measure_of(const graph::Work& work);

// Of work that stands under `name`, or under `otherwise` where the points of that name are far from so much work. Between two points by
// the logarithms of both, beyond them in proportion. Nothing where neither was measured.
std::optional<double> measured_seconds(const mesh::MeasuredTimes& measured, std::string_view name, std::string_view otherwise, double work);

}  // namespace moesh::forecast
