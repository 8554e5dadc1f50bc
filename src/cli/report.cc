#include <filesystem>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "cli/command.h"
#include "train/report.h"

namespace moesh::cli {
namespace {

constexpr Option kReportOptions[] = {
    {"--to", "FILE", "the page; report.html beside the first run's metrics where it is left out"},
};

constexpr std::string_view kReportExamples[] = {
    "report moesh_output/kept",
    "report moesh_output/kept moesh_output/first --to both.html",
};

int run_report(const Arguments& arguments) {
  if (!arguments.request().empty())
    refuse(fmt::format("'{}' changes nothing of a report", shorten(arguments.request().front(), 80)),
           kCommandLine, "moesh report RUN [RUN ...]");
  if (arguments.words().empty())
    refuse("of which run?", kCommandLine, "moesh report RUN [RUN ...]; `moesh runs` lists them");
  std::vector<train::RunRecord> runs;
  for (const std::string& path : arguments.words()) runs.push_back(train::read_run(path));
  const auto beside = std::filesystem::path(runs.front().path).parent_path() / "report.html";
  const std::string to = arguments.value("--to").value_or(beside.string());
  const std::string page = train::report_of(runs);
  replace_file(to, page, "--to FILE names one that can be written");
  fmt::print("{}: {}\n", to, human_bytes(page.size()));
  return 0;
}

}  // namespace

const Command kReport{
    "report",
    "RUN [RUN ...] [--to FILE]",
    "shows runs as a page: figures, curves, experts, what was exchanged",
    "Writes one HTML page without outside scripts, light and dark: last figures, curves of the loss, speed and norms, "
    "how many tokens each\n"
    "expert had over time, what devices exchanged beside the plan, and the settings; of several runs side by side, "
    "with the settings that\n"
    "differ. Runs may still go on or have been killed. A run that has a folder leaves its own page there at its end.",
    kReportOptions,
    kReportExamples,
    run_report};

}  // namespace moesh::cli
