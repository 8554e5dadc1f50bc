// What the settings ask to be saved for the backward pass.
#pragma once

#include <set>
#include <string>

#include "config/settings.h"
#include "graph/autodiff.h"

namespace moesh::train {

graph::Remat remat_of(const config::Settings& settings);

// The names of those that are to wait for it in the host's memory, the layers' inputs among them as decoder_layer_input.
std::set<std::string> offloaded_names(const config::Settings& settings);

}  // namespace moesh::train
