#include "cli/plan_page.h"

#include <fmt/core.h>

#include "base/text.h"
#include "base/whole_file.h"
#include "session/heading.h"

namespace moesh::cli {
namespace {

// As a shell reads it back.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string made = "'";
  for (const char c : word) made += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return made + "'";
}

std::string command_of(const std::vector<std::string>& request) {
  std::string made = "moesh compile";
  for (const std::string& word : request) made += " " + shell_word(word);
  return made;
}

// "8 rows of ...", without the headline.
std::string batch_of(const session::Session& session) {
  const std::string heading = session::heading(session);
  return heading.substr(heading.find('\n') + 1);
}

}  // namespace

std::string write_page(const std::string& path, const forecast::Front& front, const std::vector<PagePlan>& plans) {
  std::vector<forecast::ShownPlan> shown;
  for (const PagePlan& plan : plans) {
    const advice::Planned& planned = plan.planned;
    shown.push_back({plan.name, session::headline(planned.session), batch_of(planned.session), command_of(plan.request),
                     planned.step.forecast, planned.step.program.plan, planned.session.layout, planned.session.target});
  }
  const std::string page = forecast::page_of(front, shown);
  replace_file(path, page, "--html FILE names one that can be written");
  return fmt::format("The page is in {}: {}.", path, human_bytes(static_cast<double>(page.size())));
}

}  // namespace moesh::cli
