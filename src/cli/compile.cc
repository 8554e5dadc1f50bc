#include <optional>

#include <fmt/core.h>

#include "advice/cache_rows.h"
#include "advice/remedies.h"
#include "base/error.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/plan_page.h"
#include "cli/planned_run.h"
#include "config/keys.h"
#include "forecast/compare.h"
#include "forecast/json.h"
#include "forecast/report.h"
#include "plan/file.h"
#include "session/heading.h"
#include "train/model_size.h"
#include "train/saved_plan.h"

namespace moesh::cli {
namespace {

constexpr Option kCompileOptions[] = {
    {"--json", "", "everything as JSON, by the names that recorded steps of the reference's compiler use"},
    {"--all", "", "every collective in the plan's order, and every buffer at the peak, not only the largest"},
    {"--diff", "KEY=VALUE...", "the same with these changes, side by side: time, memory, and the collectives that differ"},
    kDecodeStep,
    kPrefillStep,
    kSkew,
    kHtml,
    {"--save-plan", "FILE", "writes the plan, for `moesh train ... plan=FILE`, which refuses to run any other"},
    kFrom,
    kHuggingFace,
};

constexpr std::string_view kCompileExamples[] = {
    "compile model_name=mixtral-8x7b compile_topology=mi355x-8 ici_expert_parallelism=-1 sparse_matmul=False "
    "capacity_factor=1.25 "
    "per_device_batch_size=11 remat_policy=minimal --diff moe_dispatch_no_expert_sharding=true",
    "compile model_name=deepseek3-671b compile_topology=v5p-512 ici_fsdp_parallelism=32 ici_expert_parallelism=8 "
    "--json",
    "compile model_name=mixtral-8x7b compile_topology=v5p-128 ici_fsdp_parallelism=8 ici_expert_parallelism=8 "
    "per_device_batch_size=2 --skew 0.5",
    "compile configs/first.yml --save-plan first.plan",
    "compile configs/first.yml --html first.html --diff ici_fsdp_parallelism=8 ici_expert_parallelism=1",
    "compile model_name=deepseek3-671b compile_topology=v6e-256 compile_topology_num_slices=32 dcn_data_parallelism=32 "
    "ici_fsdp_parallelism=32 ici_expert_parallelism=8",
    "compile --decode model_name=mixtral-8x7b compile_topology=h100-8 ici_tensor_parallelism=8 ici_fsdp_parallelism=1 "
    "per_device_batch_size=1 max_target_length=4096 --diff ici_tensor_parallelism=1 ici_expert_parallelism=8 custom_mesh_and_rule=ep-tp "
    "use_ring_of_experts=true",
    "compile --from torchtitan \"--config llama3_8b\" compile_topology=h100-8",
};

using Routing = std::optional<forecast::Routing>;

Routing routing_of(const PlannedRun& planned) { return forecast::routing_of(planned.plan, planned.session.target, planned.forecast); }

using Remedies = std::optional<advice::Remedies>;

// Changes of the request that are told with its plan.
struct Changes {
  Remedies remedies;                    // what makes a step fit, if it does not
  std::optional<advice::Offer> spread;  // what spreads a KV cache of which devices hold copies
};

train::ModelSize size_of(const session::Session& session) {
  const std::int64_t length = session.decodes ? session.decodes->new_tokens : session.loaded.settings.integer("max_target_length");
  return train::model_size(session.graph, session.shape, session.batch.rows_to_train * length, length);
}

// The type whose peak the MFU is of, if products round their operands to another.
std::string_view rounded_peak_of(const session::Session& session) {
  if (session.loaded.settings.text("quantization").empty()) return "";
  return session.target.chip.bf16_flops_per_second ? "bfloat16" : "float32";
}

forecast::ReportOptions report_options(const PlannedRun& planned, bool all, int width) {
  const std::string_view peak = rounded_peak_of(planned.session);
  return {all, width, planned.session.decodes ? 0 : size_of(planned.session).step_flops, peak.empty() ? "" : fmt::format(" of {}", peak)};
}

// "46.7 B parameters, 12.9 B active"; of a dense model all are active.
std::string size_words(const session::Session& session) {
  const train::ModelSize size = size_of(session);
  const std::string active = fmt::format(", {} active", human_count(static_cast<double>(size.active)));
  return fmt::format("{} parameters{}\n", human_count(static_cast<double>(size.parameters)), size.active < size.parameters ? active : "");
}

// What the heading of the text says.
void write_request(const PlannedRun& planned, JsonWriter& json) {
  const session::Session& session = planned.session;
  const train::ModelSize size = size_of(session);
  const auto devices = static_cast<double>(session.mesh.devices());
  json.key("model").value(session.shape.name).key("machine").value(session.target.name).key("slices").value(session.target.slices);
  json.key("devices").value(session.mesh.devices()).key("layout").value(session::layout_words(session));
  json.key("parameters").value(size.parameters).key("active_parameters").value(size.active);
  json.line().key("batch").raw(session::batch_json(session));
  if (!session.decodes) json.key("tflops_per_second_per_device").value(size.step_flops / planned.forecast.seconds / devices / 1e12);
  if (const std::string_view peak = rounded_peak_of(session); !peak.empty()) json.key("mfu_is_of_the_peak_of").value(peak);
  json.line();
}

void write_offer(const advice::Offer& offer, JsonWriter& json) {
  json.begin_object().key("keys").values(offer.keys).key("devices").value(offer.devices).key("peak_bytes_per_device").value(offer.peak);
  json.key("usable_bytes").value(offer.usable).key("fits").value(offer.fits()).key("fits_narrowly").value(offer.is_narrow);
  json.key("losses_differ").value(offer.rounds).key("seconds_per_step").value(offer.seconds);
  json.key("tokens_per_second_per_device").value(offer.tokens_per_second_per_device).end_object();
}

void write_remedies(const advice::Remedies& remedies, JsonWriter& json) {
  json.line().key("what_makes_it_fit").begin_array();
  for (const advice::Offer& offer : remedies.offers) write_offer(offer, json.line());
  json.end_array();
  if (!remedies.fits_here && remedies.nearest) write_offer(*remedies.nearest, json.line().key("nearest"));
}

void write(const PlannedRun& planned, const Routing& routing, const Changes& changes, JsonWriter& json) {
  write_request(planned, json.begin_object());
  forecast::write_members(planned.forecast, routing, planned.plan, json);
  if (changes.remedies) write_remedies(*changes.remedies, json);
  if (changes.spread) write_offer(*changes.spread, json.line().key("what_spreads_the_kv_cache"));
  json.end_object();
}

void print_json(const PlannedRun& planned, const Routing& routing, const Changes& changes) {
  JsonWriter json;
  write(planned, routing, changes, json);
  fmt::print("{}\n", json.text());
}

void print_json(const PlannedRun& before, const PlannedRun& after) {
  JsonWriter json;
  write(before, routing_of(before), {}, json.begin_object().key("before"));
  write(after, routing_of(after), {}, json.line().key("after"));
  json.line().end_object();
  fmt::print("{}\n", json.text());
}

// The opening of the page: how experts are chosen and, if the step does not fit in memory, what would make it fit.
forecast::Front front_of(const PlannedRun& planned, const Routing& routing, const Remedies& remedies) {
  forecast::Front front{session::title(planned.session)};
  if (routing) front.sentences.push_back(forecast::routing_words(*routing));
  if (!remedies) return front;
  if (!remedies->fits_here) front.sentences.push_back(advice::nearest_words(*remedies) + ".");
  if (remedies->offers.empty()) return front;
  page::Table& table = front.table.emplace();
  table.headings = {{"what makes it fit"}, {"a device", true}, {"a step", true}, {"tokens/s a device", true}};
  for (const advice::Offer& offer : remedies->offers) {
    const auto peak = static_cast<double>(offer.peak);
    table.rows.push_back({{advice::change_words(offer)},
                          page::number_cell(human_bytes(peak), peak),
                          page::number_cell(human_seconds(offer.seconds), offer.seconds),
                          page::number_cell(speed_words(offer), offer.tokens_per_second_per_device)});
  }
  return front;
}

int show_diff(const PlannedRun& before, const std::vector<std::string>& before_request, const Arguments& arguments) {
  const std::vector<std::string> changes = arguments.values("--diff");
  const std::vector<std::string> request = config::joined(before_request, changes);
  const PlannedRun after = plan_run(request, decode_stage(arguments), arguments.engine());
  std::string page;
  if (const auto path = arguments.value("--html"))
    page = write_page(*path, {session::title(before.session), {"Before, and after " + join(changes, " ") + "."}},
                      {page_plan("before", before, before_request), page_plan("after", after, request)});
  if (arguments.has("--json")) {
    print_json(before, after);
    return 0;
  }
  const int width = terminal_width();
  const std::string heads =
      fmt::format("before: {}\nafter:  {}\n\n", session::headline(before.session), session::headline(after.session));
  fmt::print("{}{}", wrapped(heads, width, 8), forecast::compare(before.forecast, after.forecast, width));
  if (!page.empty()) fmt::print("\n{}\n", page);
  return 0;
}

void save(const PlannedRun& planned, const std::string& path) {
  plan::save(planned.plan, train::origin_of(planned.session.loaded.settings, planned.session.target), path);
}

void check_files(const Arguments& arguments) {
  const std::optional<std::string> plan = arguments.value("--save-plan"), page = arguments.value("--html");
  if (plan && decode_stage(arguments))
    refuse("--save-plan saves the plan of a training step, which `moesh train` compares with its own", kCommandLine,
           "leave out --save-plan, or --decode and --prefill");
  if (plan && arguments.has("--diff")) refuse("--save-plan with --diff, which makes two plans", "--save-plan", "save one of them");
  if (arguments.has("--all") && arguments.has("--diff"))
    refuse("--all has no effect beside --diff, which shows every line that differs", kCommandLine, "leave out --all");
  if (plan && page && *plan == *page)
    refuse(fmt::format("--save-plan and --html both write {}", shorten(*page, 120)), kCommandLine, "give each a file of its own");
}

int run_compile(const Arguments& arguments) {
  const std::vector<std::string> request = request_with_skew(arguments, "`moesh compile --help` shows examples");
  check_files(arguments);
  const std::optional<session::DecodeStage> stage = decode_stage(arguments);
  const std::optional<std::string> file = arguments.value("--save-plan"), page = arguments.value("--html");
  const PlannedRun planned = plan_run(request, stage, arguments.engine());
  if (file) save(planned, *file);
  if (arguments.has("--diff")) return show_diff(planned, request, arguments);
  const Routing routing = routing_of(planned);
  Changes changes;
  const config::Request changeable = arguments.changeable(skew_of(arguments));
  if (!stage && !planned.forecast.fits()) changes.remedies = advice::remedies_of(changeable, planned.session, planned.forecast);
  if (stage) changes.spread = advice::spread_cache(changeable, planned.session, planned.forecast, *stage);
  const std::string said = page ? write_page(*page, front_of(planned, routing, changes.remedies), {page_plan("", planned, request)}) : "";
  if (arguments.has("--json")) {
    print_json(planned, routing, changes);
    return 0;
  }
  const int width = terminal_width();
  fmt::print("{}\n{}", wrapped(session::heading(planned.session) + "\n" + size_words(planned.session), width, 2),
             forecast::report(planned.forecast, routing, planned.plan, report_options(planned, arguments.has("--all"), width)));
  if (changes.remedies) fmt::print("\n{}", advice::to_text(*changes.remedies, width));
  if (changes.spread) fmt::print("\n{}", wrapped(advice::spread_words(*changes.spread, planned.forecast), width, 2));
  if (file) fmt::print("\nThe plan is in {}.\n", *file);
  if (page) fmt::print("\n{}\n", said);
  return 0;
}

}  // namespace

const Command kCompile{
    "compile",
    "[FILE.yml] [key=value ...] [--decode|--prefill] [--json] [--all] [--skew S] [--diff KEY=VALUE...] [--html FILE] [--save-plan FILE]",
    "a step of training or decoding planned ahead: memory, collectives, predicted time",
    "Plans a training step as `moesh train` would run it, for hardware that need not be there, and tells what it "
    "takes: whether it fits into a device's memory and what would make it fit, where in the step memory peaks and "
    "what lies there, every collective with its bytes and time, and how much of that time kernels wait. `moesh "
    "why c12 ...` tells why the collective c12 of the list is there.\n\n"
    "Times are those of the target's published figures at the shares of them that well-tuned kernels and "
    "collectives reach. Rows go to experts evenly, or with --skew S as a router sends them that favours some: the "
    "step then waits for the expected busiest device. S=0 is even, S=1 strong skew for a trained router.\n\n"
    "--decode and --prefill plan what `moesh decode` runs, with per_device_batch_size rows for each device and "
    "weights in the type of the arithmetic. They also tell how many rows fit, and on how many devices each part "
    "of the KV cache stands. Attention reads all of the cache's max_target_length slots, as at the end of a text.\n\n"
    "A step that does not fit is an answer, not a failure: the exit code is 0, and `fits` in JSON is false.",
    kCompileOptions,
    kCompileExamples,
    run_compile};

}  // namespace moesh::cli
