// Predicts how long ops take on a machine from times that were measured there.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "graph/facts.h"
#include "mesh/hardware.h"

namespace moesh::forecast {

// The key of an op's times: "einsum bfloat16".
std::string timed_name(std::string_view op, DType dtype);

// The key of the times of all ops with the same bound, which stand in for an op that was not measured: "any product bfloat16".
std::string timed_name(graph::KernelKind kind, DType dtype);

// The amount of work to which an op's times refer: its FLOPs if it has any, otherwise its bytes.
double measure_of(const graph::Work& work);

// The seconds for `work`, from the points under `name`; or from those under `otherwise` if the former are missing, or far from this amount
// of work while the latter are near. Interpolates on logarithmic scales between two points, and scales in proportion beyond them. Nothing
// if neither was measured.
std::optional<double> measured_seconds(const mesh::MeasuredTimes& measured, std::string_view name, std::string_view otherwise, double work);

}  // namespace moesh::forecast
