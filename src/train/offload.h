// Finds the buffers of a training step's plan that the settings ask to keep in host memory.
#pragma once

#include <vector>

#include "config/settings.h"
#include "forecast/host_memory.h"
#include "train/program.h"

namespace moesh::train {

std::vector<forecast::Offloaded> offloaded_of(const graph::Graph& model, const StepProgram& program, const Where& where,
                                              const config::Settings& settings);

}  // namespace moesh::train
