// What the settings ask to be saved for the backward pass.
#pragma once

#include "config/settings.h"
#include "graph/autodiff.h"

namespace moesh::train {

graph::Remat remat_of(const config::Settings& settings);

}  // namespace moesh::train
