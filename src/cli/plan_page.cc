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

}  // namespace

std::string write_page(const std::string& path, const forecast::Front& front, const std::vector<PagePlan>& plans) {
  std::vector<forecast::ShownPlan> shown;
  for (const PagePlan& plan : plans) {
    const advice::Planned& planned = plan.planned;
    shown.push_back({plan.name, session::headline(planned.session), batch_of(planned.session),
                     shell_line(config::joined({"moesh", "compile"}, plan.request)),
                     planned.step.forecast, planned.step.program.plan, planned.session.layout, planned.session.target});
  }
  const std::string page = forecast::page_of(front, shown);
  replace_file(path, page, "--html FILE names one that can be written");
  return fmt::format("The page is in {}: {}.", path, human_bytes(page.size()));
}

}  // namespace moesh::cli
