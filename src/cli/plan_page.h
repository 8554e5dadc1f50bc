// Writes planned steps as an HTML page, for commands that have --html.
#pragma once

#include <string>
#include <vector>

#include "cli/planned_run.h"
#include "forecast/page/page.h"

namespace moesh::cli {

inline constexpr Option kHtml{
    "--html", "FILE", "one page to look at, offline: memory, schedule, mesh, collectives, and tensors with their why"};

struct PagePlan {
  std::string name;  // empty if the page shows only this plan
  const session::Session& session;
  const plan::Plan& plan;
  const forecast::Forecast& forecast;
  std::vector<std::string> request;
};

PagePlan page_plan(const std::string& name, const PlannedRun& planned, const std::vector<std::string>& request);

// Writes the page, whole or not at all, and returns a sentence on it: "The page is in F.html: 812.0 KiB."
std::string write_page(const std::string& path, const forecast::Front& front, const std::vector<PagePlan>& plans);

}  // namespace moesh::cli
