// Finds the buffers of a training step's plan that the settings ask to keep in host memory.
#pragma once

#include <vector>

#include "config/settings.h"
#include "forecast/forecast.h"
#include "train/program.h"

namespace moesh::train {

// Whether the optimizer's moments wait in the host's memory between updates. Virtual devices have no other memory.
bool keeps_moments_on_host(const config::Settings& settings, const mesh::Chip& chip);

std::vector<forecast::Offloaded> offloaded_of(const graph::Graph& model, const StepProgram& program, const Where& where,
                                              const config::Settings& settings);

// What the plan of a training step does not hold on its devices.
forecast::Elsewhere elsewhere_of(const graph::Graph& model, const StepProgram& program, const Where& where,
                                 const config::Settings& settings);

}  // namespace moesh::train
