#include "cli/bench_plot.h"

#include <fmt/core.h>

#include "base/text.h"
#include "base/whole_file.h"

namespace moesh::cli {

void draw(const Arguments& arguments, const std::function<page::Bars()>& bars) {
  const auto path = arguments.value("--plot");
  if (!path) return;
  const std::string picture = svg_of(bars());
  replace_file(*path, picture, "--plot FILE names one that can be written");
  if (!arguments.has("--json")) fmt::print("The picture is in {}: {}.\n", *path, human_bytes(picture.size()));
}

}  // namespace moesh::cli
