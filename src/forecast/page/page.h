// Planned steps as one HTML page that stands alone: memory, schedule, mesh, collectives, tensors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "forecast/page/shown_plan.h"
#include "page/html.h"

namespace moesh::forecast {

// What stands above the plans: a few sentences, and a table where there is one.
struct Front {
  std::string title;
  std::vector<std::string> sentences = {};
  std::optional<page::Table> table = {};
};

// Of several plans each has a name; every part shows them beside each other, on one scale, and tensors that differ
// first.
std::string page_of(const Front& front, const std::vector<ShownPlan>& plans);

}  // namespace moesh::forecast
