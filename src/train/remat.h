// Which values the settings ask to save for the backward pass.
#pragma once

#include <set>
#include <string>

#include "config/settings.h"
#include "graph/autodiff.h"

namespace moesh::train {

graph::Remat remat_of(const config::Settings& settings);

// The names of the saved values that wait in host memory; decoder_layer_input stands for the inputs of the layers.
std::set<std::string> offloaded_names(const config::Settings& settings);

}  // namespace moesh::train
