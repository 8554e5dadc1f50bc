#include "cli/plan_page.h"

#include <fmt/core.h>

#include "base/shell.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "config/keys.h"
#include "session/heading.h"

namespace moesh::cli {
namespace {

// The heading without its first line, the headline: "8 rows of ...".
std::string batch_of(const session::Session& session) {
  const std::string heading = session::heading(session);
  return heading.substr(heading.find('\n') + 1);
}

std::vector<std::string> command_of(const forecast::Forecast& forecast) {
  std::vector<std::string> words{"moesh", "compile"};
  if (forecast.decoding) words.emplace_back(forecast.decoding->is_prompt() ? kPrefillStep.name : kDecodeStep.name);
  return words;
}

}  // namespace

PagePlan page_plan(const std::string& name, const PlannedRun& planned, const std::vector<std::string>& request) {
  return {name, planned.session, planned.plan, planned.forecast, request};
}

std::string write_page(const std::string& path, const forecast::Front& front, const std::vector<PagePlan>& plans) {
  std::vector<forecast::ShownPlan> shown;
  for (const PagePlan& plan : plans) {
    shown.push_back({plan.name, session::headline(plan.session), batch_of(plan.session),
                     shell_line(config::joined(command_of(plan.forecast), plan.request)), plan.forecast, plan.plan, plan.session.layout,
                     plan.session.target});
  }
  const std::string page = forecast::page_of(front, shown);
  replace_file(path, page, "--html FILE names one that can be written");
  return fmt::format("The page is in {}: {}.", path, human_bytes(page.size()));
}

}  // namespace moesh::cli
