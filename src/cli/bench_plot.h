// `--plot FILE` of `moesh bench`.
#pragma once

#include <functional>

#include "cli/command.h"
#include "page/bars.h"

namespace moesh::cli {

inline constexpr Option kPlot{"--plot", "FILE", "draws the times as bars, into an SVG file"};

// Draws, if the option is given.
void draw(const Arguments& arguments, const std::function<page::Bars()>& bars);

}  // namespace moesh::cli
