// Planned steps as one self-contained HTML page: memory, schedule, mesh, collectives, tensors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "forecast/page/shown_plan.h"
#include "page/html.h"

namespace moesh::forecast {

// The top of the page, above the plans: a title, a few sentences, and optionally a table.
struct Front {
  std::string title;
  std::vector<std::string> sentences = {};
  std::optional<page::Table> table = {};
};

// If there are several plans, each has a name, and every part shows them beside each other on one scale, with tensors that differ first.
std::string page_of(const Front& front, const std::vector<ShownPlan>& plans);

}  // namespace moesh::forecast
