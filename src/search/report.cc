#include "search/report.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "base/json.h"
#include "base/shell.h"
#include "base/table.h"
#include "base/text.h"
#include "forecast/report.h"
#include "search/space.h"

namespace moesh::search {
namespace {

constexpr std::size_t kMostShown = 12;
constexpr std::size_t kMostDifferences = 5;
constexpr double kLeastChange = 0.001;  // of a step: what differs less is not told as a difference
constexpr double kLeastShare = 0.05;  // smaller shares of a step are not shown

std::string limit_words(const Found& found) {
  std::vector<std::string> words;
  for (const auto& [what, share] : found.limits) {
    if (share >= kLeastShare && words.size() < 3) words.push_back(fmt::format("{} {:.0f}%", what, 100 * share));
  }
  return join(words, ", ");
}

bool is_of_the_layout(const std::string& key) {
  static constexpr std::string_view kBegins[] = {"ici_", "dcn_", "custom_mesh_and_rule=", "mesh_axes="};
  return std::any_of(std::begin(kBegins), std::end(kBegins), [&](std::string_view begin) { return key.starts_with(begin); });
}

// "fsdp=8 x expert=8, default rules; remat_policy=minimal"
std::string layout_words(const Found& found) {
  std::vector<std::string> others;
  for (const std::string& key : found.offer.keys) {
    if (!is_of_the_layout(key)) others.push_back(key);
  }
  return others.empty() ? found.layout : found.layout + "; " + join(others, " ");
}

std::string command_of(Stage stage, const std::vector<std::string>& request, const Found& found) {
  std::vector<std::string> command{"./moesh", "compile"};
  if (stage) command.emplace_back(session::option_of(*stage));
  return shell_line(joined(joined(command, request), found.offer.keys));
}

std::string count_words(const Outcome& outcome, int threads) {
  const Counts& counts = outcome.counts;
  std::string words = fmt::format("{} of {} plans of {} made in {} on {}", with_commas(counts.differing()), with_commas(counts.settings),
                                  counted(counts.layouts - counts.too_large - counts.uneven - counts.same, "layout"),
                                  human_seconds(outcome.seconds), counted(threads, "thread"));
  words += counts.untried == 0 ? ": the others do not fit, or cannot be better."
                               : fmt::format("; {} not tried, as --most allows no more. Any others do not fit, or cannot be better.",
                                             counts.untried == 1 ? "1 was" : with_commas(counts.untried) + " were");
  std::vector<std::string> out;
  if (counts.too_large > 0) out.push_back(fmt::format("the state alone of {} does not fit", counted(counts.too_large, "layout")));
  if (counts.uneven > 0) out.push_back(fmt::format("over {} no batch that was tried lies evenly", counted(counts.uneven, "layout")));
  if (counts.same > 0) out.push_back(fmt::format("{} differ from others in the names of axes alone", counted(counts.same, "layout")));
  if (counts.refused > 0)
    out.push_back(fmt::format("{} turned out not to be possible, the first as {}", counted(counts.refused, "plan"), outcome.first_refusal));
  if (counts.left > 0) out.push_back(fmt::format("of {}, those with the most axes, no plan was tried", counted(counts.left, "layout")));
  if (!out.empty()) words += " Besides, " + join(out, "; ") + ".";
  return words;
}

// The first of the front or, if it goes from many rows to few, some from all over it.
std::vector<Found> shown(const Told& told) {
  const Outcome& outcome = told.machines.back().outcome;
  const std::vector<Found>& front = outcome.front;
  const std::size_t count = std::min(front.size(), kMostShown);
  std::vector<Found> found;
  for (std::size_t i = 0; i < count; ++i)
    found.push_back(front[outcome.beside == Beside::step && count > 1 ? i * (front.size() - 1) / (count - 1) : i]);
  if (told.objective == Objective::memory) std::reverse(found.begin(), found.end());
  return found;
}

std::string tokens_words(const Found& found) {
  return found.offer.tokens == 1 ? "a token" : human_count(static_cast<double>(found.offer.tokens)) + " tokens";
}

std::string mfu_words(const Found& found) { return found.mfu ? fmt::format("{:.1f}%", 100 * *found.mfu) : "-"; }

std::string peak_words(const advice::Offer& offer) { return human_bytes(offer.peak) + (offer.is_narrow ? ", narrow" : ""); }

std::string table_of(const Told& told, const std::vector<Found>& rows, int width) {
  const auto is_alike = [&](const Found& found) { return found.offer.tokens == rows.front().offer.tokens; };
  const bool has_steps_alike = std::all_of(rows.begin(), rows.end(), is_alike);
  const bool have_mfu = std::any_of(rows.begin(), rows.end(), [](const Found& found) { return found.mfu.has_value(); });
  std::vector<Column> columns{{"", true}, {has_steps_alike ? "a step" : "a step of", true}, {"tokens/s a device", true}};
  if (have_mfu) columns.push_back({"MFU", true});
  columns.insert(columns.end(), {{"of " + human_bytes(told.machines.back().outcome.usable_memory), true},
                                 {"layout", false, Room::wrap},
                                 {"time goes to", false, Room::wrap, 1}});
  Table table(std::move(columns));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Found& found = rows[i];
    const std::string step = human_seconds(found.offer.seconds);
    std::vector<std::string> cells{std::to_string(i + 1), has_steps_alike ? step : step + " for " + tokens_words(found),
                                   speed_words(found.offer)};
    if (have_mfu) cells.push_back(mfu_words(found));
    cells.insert(cells.end(), {peak_words(found.offer), layout_words(found), limit_words(found)});
    table.add(std::move(cells));
  }
  return table.text(width);
}

std::string commands_of(Stage stage, const OnMachine& on, const std::vector<Found>& rows) {
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) text += fmt::format("{:>2}  {}\n", i + 1, command_of(stage, on.request, rows[i]));
  return text;
}

// What of the commands MaxText would refuse; empty if it takes them all.
std::string own_words(const Keys& request, const std::vector<Found>& rows, int width) {
  const auto holds = [](const Keys& keys, std::string_view word) {
    return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) { return lower(key).starts_with(word); });
  };
  const auto asks = [&](const Found& found, std::string_view word) { return holds(found.offer.keys, word); };
  constexpr std::string_view kRing = "use_ring_of_experts=true";
  const auto any = [&](const auto& is_own) { return std::any_of(rows.begin(), rows.end(), is_own); };
  std::string words;
  if (any([&](const Found& found) { return asks(found, "remat_policy=everything"); })) {
    words += "\n" + wrapped("remat_policy=everything is moesh's own: MaxText has no policy that saves all.\n", width, 2);
  }
  if (any([&](const Found& found) { return asks(found, "num_moe_token_chunks=") && !asks(found, kRing); }) && !holds(request, kRing)) {
    words += "\n" + wrapped("MaxText takes num_moe_token_chunks with use_ring_of_experts=true only.\n", width, 2);
  }
  if (any([&](const Found& found) { return asks(found, "use_batch_split_schedule=true"); })) {
    words += "\n" + wrapped("MaxText takes use_batch_split_schedule with decoder_block=deepseek and shard_mode=explicit only.\n", width, 2);
  }
  return words;
}

std::string nearest_words(Stage stage, const Outcome& outcome) {
  if (!outcome.nearest && outcome.counts.layouts == outcome.counts.too_large)
    return fmt::format("nothing fits: {} alone take {} a device or more, {} are there", stage ? "parameters" : "parameters and moments",
                       human_bytes(outcome.least_state), human_bytes(outcome.usable_memory));
  if (!outcome.nearest && outcome.first_refusal.empty()) return "nothing could be planned";
  if (!outcome.nearest) return "nothing could be planned: " + outcome.first_refusal;
  const advice::Offer& offer = outcome.nearest->offer;
  return fmt::format("nothing fits; the nearest takes {} a device, {} too much: {}", human_bytes(offer.peak),
                     human_bytes(offer.peak - offer.usable), layout_words(*outcome.nearest));
}

std::vector<std::string> not_tried(const Told& told) { return never_tried(told.stage, told.machines.back().outcome.has_open_batch); }

std::string devices_words(const OnMachine& on) { return fmt::format("{}, {}", on.machine, counted(on.devices, "device")); }

// Where the time of two plans goes, for the same number of tokens: what differs the most, the rest, and all of it.
std::string differences(const Found& from, const Found& to, int width) {
  using Times = std::pair<double, double>;
  std::map<std::string, Times> seconds;
  const double scale = static_cast<double>(from.offer.tokens) / static_cast<double>(to.offer.tokens);
  const Times all{from.offer.seconds, to.offer.seconds * scale};
  for (const auto& [what, share] : from.limits) seconds[what].first = share * all.first;
  for (const auto& [what, share] : to.limits) seconds[what].second = share * all.second;
  std::vector<std::pair<std::string, Times>> sorted(seconds.begin(), seconds.end());
  const auto change = [](const auto& entry) { return std::abs(entry.second.first - entry.second.second); };
  std::erase_if(sorted, [&](const auto& entry) { return change(entry) < kLeastChange * std::max(all.first, all.second); });
  std::stable_sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) { return change(a) > change(b); });
  if (sorted.size() > kMostDifferences) sorted.resize(kMostDifferences);
  const bool are_alike = from.offer.tokens == to.offer.tokens;  // other steps are compared by the tokens of `from`
  Table table({{are_alike ? "of a step" : "for " + tokens_words(from)}, {"yours", true}, {"the best", true}});
  const auto add = [&](const std::string& what, const Times& times) {
    table.add({what, human_seconds(times.first), human_seconds(times.second)});
  };
  Times rest = all;
  for (const auto& [what, times] : sorted) {
    add(what, times);
    rest = {rest.first - times.first, rest.second - times.second};
  }
  add("the rest", {std::max(0.0, rest.first), std::max(0.0, rest.second)});
  add("all", all);
  return table.text(width);
}

std::string against_words(const Told& told, const Found& best, int width) {
  const Found& yours = told.against->found;
  const double speed = yours.seconds_per_token() / best.seconds_per_token();
  std::string text = fmt::format("Yours is {}: {}, {} tokens/s a device, {}{}. ", layout_words(yours), human_seconds(yours.offer.seconds),
                                 speed_words(yours.offer), human_bytes(yours.offer.peak), yours.offer.fits() ? "" : ", which does not fit");
  if (speed <= 1.001) return wrapped(text + "Nothing faster was found.\n", width, 2);
  text += fmt::format("The fastest that was found is {:.2f} times as fast. On the critical paths:\n", speed);
  return wrapped(text, width, 2) + "\n" + differences(yours, best, width);
}

}  // namespace

std::string to_text(const Told& told, int width) {
  std::string text;
  const auto nearest_on = [&](const OnMachine& on) { return nearest_words(told.stage, on.outcome); };
  for (std::size_t i = 0; i + 1 < told.machines.size(); ++i)
    text += wrapped(fmt::format("{}: {}.\n", devices_words(told.machines[i]), nearest_on(told.machines[i])), width, 2);
  const OnMachine& last = told.machines.back();
  const Outcome& outcome = last.outcome;
  text += wrapped(fmt::format("{}: {}\n", devices_words(last), count_words(outcome, told.threads)), width, 2);
  text += "\n";
  const std::string left_out = "\n" + wrapped("Not tried: " + join(not_tried(told), "; ") + ".\n", width, 2);
  if (outcome.front.empty()) return text + wrapped("On " + devices_words(last) + " " + nearest_on(last) + ".\n", width, 2) + left_out;
  const std::vector<Found> rows = shown(told);
  text += table_of(told, rows, width) + "\n" + commands_of(told.stage, last, rows) + own_words(last.request, rows, width);
  if (told.against) text += "\n" + against_words(told, outcome.front.front(), width);
  return text + left_out;
}

forecast::Front front_of(const Told& told, const std::string& title) {
  const OnMachine& on = told.machines.back();
  forecast::Front front{title, {devices_words(on) + ": " + count_words(on.outcome, told.threads)}, page::Table{}};
  front.sentences.push_back(fmt::format("Of what was found none is better in both {} than what stands here. Not tried: ",
                                        on.outcome.beside == Beside::memory ? "time and memory" : "speed and the time of a step") +
                            join(not_tried(told), "; ") + ".");
  front.table->headings = {{"a step", true}, {"tokens/s a device", true}, {"MFU", true},
                           {"of " + human_bytes(on.outcome.usable_memory), true}, {"layout"}, {"time goes to"}, {"command"}};
  for (const Found& found : shown(told)) {
    const advice::Offer& offer = found.offer;
    front.table->rows.push_back({page::number_cell(human_seconds(offer.seconds), offer.seconds),
                                 page::number_cell(speed_words(found.offer), offer.tokens_per_second_per_device),
                                 page::number_cell(mfu_words(found), found.mfu.value_or(0)),
                                 page::number_cell(peak_words(offer), static_cast<double>(offer.peak)),
                                 {layout_words(found)},
                                 {limit_words(found)},
                                 {command_of(told.stage, on.request, found)}});
  }
  return front;
}

namespace {

void add(JsonWriter& json, Stage stage, const std::vector<std::string>& request, const Found& found) {
  const advice::Offer& offer = found.offer;
  json.begin_object();
  json.key("command").value(command_of(stage, request, found)).key("keys").begin_array();
  for (const std::string& key : offer.keys) json.value(key);
  json.end_array();
  json.key("layout").value(found.layout).key("devices").value(offer.devices).key("tokens_per_step").value(offer.tokens);
  json.key("seconds_per_step").value(offer.seconds).key("tokens_per_second_per_device").value(offer.tokens_per_second_per_device);
  json.key("mfu").value(found.mfu).key("exposed_seconds").value(found.exposed);
  json.key("peak_bytes_per_device").value(offer.peak).key("usable_bytes").value(offer.usable).key("fits").value(offer.fits());
  json.key("fits_narrowly").value(offer.is_narrow);
  json.key("shares_of_the_step").begin_object();
  for (const auto& [what, share] : found.limits) json.key(what).value(share);
  json.end_object().end_object();
}

void add(JsonWriter& json, Stage stage, const OnMachine& on) {
  const Outcome& outcome = on.outcome;
  const Counts& counts = outcome.counts;
  json.begin_object().key("machine").value(on.machine).key("devices").value(on.devices).key("usable_bytes").value(outcome.usable_memory);
  json.key("counts").begin_object();
  json.key("layouts").value(counts.layouts).key("too_large").value(counts.too_large).key("uneven").value(counts.uneven);
  json.key("left").value(counts.left).key("plans").value(counts.settings).key("planned").value(counts.differing());
  json.key("refused").value(counts.refused).key("same").value(counts.same).key("untried").value(counts.untried);
  json.end_object();
  if (counts.refused > 0) json.key("first_refusal").value(outcome.first_refusal);
  json.key("seconds").value(outcome.seconds);
  json.line().key("front").begin_array();
  for (const Found& found : outcome.front) add(json.line(), stage, on.request, found);
  json.end_array();
  if (outcome.nearest) add(json.line().key("nearest"), stage, on.request, *outcome.nearest);
  json.end_object();
}

}  // namespace

std::string to_json(const Told& told) {
  JsonWriter json;
  json.begin_object().key("machines").begin_array();
  for (const OnMachine& on : told.machines) add(json.line(), told.stage, on);
  json.end_array();
  if (told.against) add(json.line().key("against"), told.stage, told.against->request, told.against->found);
  json.line().key("not_tried").begin_array();
  for (const std::string& what : not_tried(told)) json.value(what);
  json.end_array().line().end_object();
  return json.text();
}

}  // namespace moesh::search
