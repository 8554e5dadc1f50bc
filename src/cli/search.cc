#include "search/search.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "base/machine_cores.h"
#include "base/rounding.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/plan_page.h"
#include "config/keys.h"
#include "search/report.h"
#include "search/space.h"
#include "session/session.h"

namespace moesh::cli {
namespace {

constexpr std::int64_t kMostPlans = 10'000'000;
constexpr std::int64_t kMostDevices = 65536;

constexpr Option kSearchOptions[] = {
    {"--objective", "time|memory|devices", "what comes first: time (the default), memory, or the smallest machine that does it"},
    {"--devices", "N..M", "machines of compile_topology's kind with so many devices, from the smallest on, until something fits"},
    {"--against", "KEY=VALUE...", "holds a layout of yours against the best, and tells what makes the difference"},
    {"--most", "N", "makes at most N plans; 10000 where it is left out"},
    kDecodeStep,
    kPrefillStep,
    kThreads,
    {"--html", "FILE", "one page to look at, offline: what was found, and the fastest beside yours or beside the one that takes the least"},
    {"--json", "", "all that is on the front, as JSON"},
    kFrom,
    kHuggingFace,
};

constexpr std::string_view kSearchExamples[] = {
    "search model_name=mixtral-8x7b compile_topology=h100-32 per_device_batch_size=4 --most 300",
    "search model_name=llama2-7b compile_topology=v5e-64 --devices 4..64 --most 200 --html best.html",
    "search model_name=mixtral-8x7b compile_topology=v6e-64 per_device_batch_size=4 --most 200 --against ici_fsdp_parallelism=64 "
    "remat_policy=full",
    "search --decode model_name=mixtral-8x7b compile_topology=h100-8",
    "search --from torchtitan \"--config llama3_8b\" compile_topology=h100-8",
};

const std::string kMachine = "compile_topology=";

struct Range {
  std::int64_t least = 1, most = kMostDevices;
};

[[noreturn]] void refuse_range(const std::string& text) {
  refuse(fmt::format("'{}' is no range of devices: N..M with 1 <= N <= M <= {} was expected", shorten(text, 40), kMostDevices), "--devices",
         "for example --devices 8..256");
}

Range range_of(const std::string& text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) refuse_range(text);
  const auto least = parse_integer(text.substr(0, dots)), most = parse_integer(text.substr(dots + 2));
  if (!least || !most || *least < 1 || *most < *least || *most > kMostDevices) refuse_range(text);
  return {*least, *most};
}

struct Wanted {
  search::Objective objective = search::Objective::time;
  std::optional<Range> devices;
};

Wanted wanted_of(const Arguments& arguments) {
  Wanted wanted;
  const std::string objective = arguments.value("--objective").value_or("time");
  if (objective != "time" && objective != "memory" && objective != "devices")
    refuse(fmt::format("'{}' is no objective: time, memory or devices was expected", shorten(objective, 40)), "--objective",
           "--objective time");
  if (objective == "memory") wanted.objective = search::Objective::memory;
  if (const auto range = arguments.value("--devices")) {
    wanted.devices = range_of(*range);
  } else if (objective == "devices") {
    wanted.devices = Range{};
  }
  return wanted;
}

// The machine that the request names, or all of its kind in the wanted range of devices, the smallest first.
std::vector<std::string> machines_of(const session::Session& session, const Wanted& wanted) {
  if (!wanted.devices) return {session.target.name};
  const std::int64_t slices = session.target.slices;
  const auto [least, most] = *wanted.devices;
  const std::vector<std::string> names = mesh::machines_like(session.target.name, divide_up(least, slices), most / slices);
  if (names.empty()) {
    const std::vector<std::string> kinds = mesh::hardware_names();
    const std::string& kind = session.target.chip.name;
    refuse(fmt::format("no machine like {} has {} to {} devices", session.target.name, least, most), "--devices",
           std::binary_search(kinds.begin(), kinds.end(), kind) ? fmt::format("`moesh help {}` tells the sizes that there are", kind)
                                                                : "its file tells the sizes that there are");
  }
  return names;
}

search::OnMachine searched(std::vector<std::string> request, const mesh::Topology& machine, const search::Effort& effort,
                           search::Stage stage) {
  std::erase_if(request, [](const std::string& word) { return word.starts_with(kMachine); });
  request.push_back(kMachine + machine.name);
  request = search::filled(request);
  return {machine.name, request, machine.devices(), search::search(request, effort, stage)};
}

struct NamedRequest {
  std::string name;
  std::vector<std::string> request;
};

NamedRequest named(const std::string& name, const std::vector<std::string>& request, const search::Found& found) {
  return {name, config::joined(request, found.offer.keys)};
}

std::string write_search_page(const std::string& path, const search::Told& told, const std::string& title, const config::Engine& engine) {
  const search::OnMachine& on = told.machines.back();
  const std::vector<search::Found>& front = on.outcome.front;
  if (front.empty()) return "No page is written: nothing fits.";
  std::vector<NamedRequest> requests{named("fastest", on.request, front.front())};
  if (told.against) {
    requests.push_back(named("yours", told.against->request, told.against->found));
  } else if (front.size() > 1) {
    requests.push_back(named(on.outcome.beside == search::Beside::memory ? "least memory" : "shortest step", on.request, front.back()));
  }
  std::vector<PlannedRun> planned;
  for (const NamedRequest& one : requests) planned.push_back(plan_run(one.request, told.stage, engine));
  std::vector<PagePlan> plans;
  for (std::size_t i = 0; i < requests.size(); ++i)
    plans.push_back(page_plan(requests.size() > 1 ? requests[i].name : "", planned[i], requests[i].request));
  return write_page(path, search::front_of(told, title), plans);
}

struct SearchRequest {
  std::vector<std::string> request;
  config::Keys yours;  // a layout to compare with the best
};

// Of another program's request the model and the rows of a step stay, and its own layout is compared with what is found.
SearchRequest asked_of(const Arguments& arguments) {
  const std::vector<std::string>& request = request_alone(arguments, "`moesh search --help` shows examples");
  const config::Keys against = arguments.values("--against");
  if (!arguments.has(kFrom.name)) return {search::filled(request), against};
  const search::Job job = search::taken_apart(arguments.translated());
  const config::Keys own(request.begin() + std::ssize(arguments.translated()), request.end());
  return {search::filled(config::joined(job.open, own)), arguments.has("--against") ? against : job.layout};
}

// The user's layout. That of another program may be one that is not planned; the search goes on without it.
std::optional<search::Yours> yours_of(const Arguments& arguments, const SearchRequest& asked, search::Stage stage) {
  if (asked.yours.empty()) return std::nullopt;
  try {
    const PlannedRun planned = plan_run(config::joined(asked.request, asked.yours), stage, arguments.engine());
    return search::Yours{asked.request, search::found_of(asked.yours, planned.session, planned.forecast)};
  } catch (const Error& error) {
    if (arguments.has("--against")) throw;
    log_notice(fmt::format("the job's own layout is not compared: {}", error.what()));
    return std::nullopt;
  }
}

// The model's name. A job of another program mostly gives the model's sizes only.
std::string model_words(const Arguments& arguments, const session::Session& session) {
  if (session.shape.name != "default") return session.shape.name;
  return arguments.has(kFrom.name) ? fmt::format("the job of {}", arguments.values(kFrom.name).front()) : "the default model";
}

int run_search(const Arguments& arguments) {
  const SearchRequest asked = asked_of(arguments);
  const std::vector<std::string>& request = asked.request;
  const Wanted wanted = wanted_of(arguments);
  search::Effort effort{.objective = wanted.objective};
  effort.most_plans = count_of(arguments, "--most", kMostPlans, "--most 10000").value_or(effort.most_plans);
  effort.threads = threads_of(arguments) > 0 ? threads_of(arguments) : usable_cores();
  const search::Stage stage = decode_stage(arguments);
  const session::Session session = open_run(request, stage, session::Evenness::reported);
  if (session.loaded.settings.text("compile_topology").empty())
    refuse("a search needs a machine", kCommandLine, "compile_topology=KIND-SIZE; `moesh help hardware` lists the kinds");
  search::Told told{wanted.objective, stage, {}, yours_of(arguments, asked, stage), effort.threads};
  for (const std::string& machine : machines_of(session, wanted)) {
    told.machines.push_back(searched(request, mesh::find_topology(machine, session.target.slices), effort, stage));
    if (!told.machines.back().outcome.front.empty()) break;
  }
  const std::string title = fmt::format("The best ways to {} {} on {} that were found", stage ? "decode with" : "train",
                                        model_words(arguments, session), session.target.chip.title);
  if (arguments.has("--json")) {
    fmt::print("{}\n", search::to_json(told));
  } else {
    fmt::print("{}\n\n{}", title, search::to_text(told, terminal_width()));
  }
  if (const auto path = arguments.value("--html")) {
    const std::string said = write_search_page(*path, told, title, arguments.engine());
    if (!arguments.has("--json")) fmt::print("\n{}\n", said);
  }
  return told.machines.back().outcome.front.empty() ? 1 : 0;
}

}  // namespace

const Command kSearch{
    "search",
    "[FILE.yml] key=value ... [--decode|--prefill] [--from PROGRAM TEXT] [--objective time|memory|devices] [--devices N..M] "
    "[--against KEY=VALUE...] [--most N] [--html FILE] [--threads N] [--json]",
    "the best layouts for a model, a machine and a batch",
    "Plans training steps with what the request leaves open: rule sets, sizes of axes, ways to the experts, remat policies, and in how\n"
    "many passes the batch is taken; without per_device_batch_size also how large it is. What the request gives stays. The table holds\n"
    "those of which none is better in both time and memory, from the fastest to the one that takes the least, with the command of each.\n"
    "With --decode or --prefill it plans decoding instead. Then, without per_device_batch_size, the table goes from the most tokens/s to\n"
    "the shortest time of a token: more rows make all faster and each slower.\n"
    "Of another program's request (--from) the model and the rows of a step stay, and its own layout is compared with the best.\n"
    "Times are predicted as by `moesh compile`. Exit code 1 when nothing fits; then the nearest is told.",
    kSearchOptions,
    kSearchExamples,
    run_search};

}  // namespace moesh::cli
