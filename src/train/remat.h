// What the settings ask to be saved for the backward pass.
#pragma once

#include <span>
#include <string_view>

#include "config/settings.h"
#include "graph/autodiff.h"

namespace moesh::train {

// The values of a layer that remat_policy=custom has a key of the same name for.
std::span<const std::string_view> values_that_may_be_saved();

graph::Remat remat_of(const config::Settings& settings);

}  // namespace moesh::train
