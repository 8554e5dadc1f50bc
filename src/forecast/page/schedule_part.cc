#include <algorithm>
#include <set>

#include <fmt/core.h>

#include "base/text.h"
#include "forecast/page/drawing.h"
#include "forecast/page/parts.h"
#include "forecast/report.h"
#include "forecast/timing.h"
#include "page/html.h"
#include "page/scale.h"

namespace moesh::forecast {
namespace {

using page::escaped;
using plan::InstructionId;

constexpr double kScheduleLeft = 110, kScheduleRight = kDrawn - 12, kLane = 40, kGap = 10, kMemoryLane = 56;
constexpr std::size_t kScheduleBins = 525, kMostInLegend = 4;
constexpr double kLeastDrawn = 0.25;  // in pixels

// The name of a link by its index in the chip's list: "ici".
std::string link_name(const Course& course, std::size_t link) { return course.shown.target.chip.links[link].kind; }

// The links that a plan's collectives use.
std::set<std::size_t> links_of(const Course& course) {
  std::set<std::size_t> links;
  for (const Timing& timing : course.timings) links.insert(timing.links.begin(), timing.links.end());
  return links;
}

bool keeps_busy(const Timing& timing, std::size_t link) {
  return std::find(timing.links.begin(), timing.links.end(), link) != timing.links.end();
}

std::optional<std::size_t> kernel_shade(const Course& course, InstructionId id) {
  if (course.sent_by(id) != nullptr) return std::nullopt;
  return static_cast<std::size_t>(course.timing(id).work.kind);
}

std::vector<Layer> layers_of(const Shares& shares, const std::string& prefix) {
  std::vector<Layer> layers;
  for (std::size_t shade = 0; shade < shares.size(); ++shade) {
    Layer layer{fmt::format("{}{}", prefix, shade), shares[shade]};
    for (double& height : layer.heights) height *= kLane;
    layers.push_back(std::move(layer));
  }
  return layers;
}

// The share of each bin in which no kernel runs, up to the step's end.
Layer waits_of(const Shares& kernels, const Bins& bins, double seconds) {
  Layer layer{"wait", std::vector<double>(bins.count)};
  for (std::size_t bin = 0; bin < bins.count; ++bin) {
    const double begin = static_cast<double>(bin) * bins.width();
    double rest = std::clamp((seconds - begin) / bins.width(), 0.0, 1.0);
    for (const std::vector<double>& of_shade : kernels) rest -= of_shade[bin];
    layer.heights[bin] = kLane * std::max(0.0, rest);
  }
  return layer;
}

std::string stretches(const std::vector<Stretch>& all, const page::Scale& x, double y, const char* classes) {
  std::string made;
  for (const Stretch& one : all) {
    const double begin = x.at(one.begin), width = x.at(one.end) - begin;
    const std::string words = fitting(one.name, width);
    made += rect({begin, y, std::max(0.5, width - 1), 15}, classes,
                 fmt::format("{}: {}", one.name, human_seconds(one.end - one.begin)));
    if (!words.empty()) made += label(begin + 4, y + 11.5, words);
  }
  return made;
}

std::string overview(const Shown& shown, std::size_t plan) {
  const Course& course = shown.courses[plan];
  const Bins bins{kScheduleBins, shown.seconds};
  const page::Scale x{kScheduleLeft, kScheduleRight, 0, shown.seconds};
  const double column = (kScheduleRight - kScheduleLeft) / static_cast<double>(bins.count);
  std::string made =
      stretches(phases_of(course), x, 2, "stretch") + stretches(loops_of(course), x, 19, "stretch inner");
  double bottom = 42 + kLane;
  const Shares kernels =
      shares_of(course, bins, kKernelKinds, [&](InstructionId id) { return kernel_shade(course, id); });
  std::vector<Layer> layers = layers_of(kernels, "k");
  layers.push_back(waits_of(kernels, bins, course.schedule.seconds));
  made += label(kScheduleLeft - 8, bottom - kLane / 2 + 4, "compute", "", "end") + stacked(layers, kScheduleLeft, column, bottom);
  for (const std::size_t link : links_of(course)) {
    bottom += kLane + kGap;
    const Shares busy = shares_of(course, bins, kAxesColours, [&](InstructionId id) -> std::optional<std::size_t> {
      if (!keeps_busy(course.timing(id), link)) return std::nullopt;
      return shown.colours.at(course.sent_by(id)->axes);
    });
    made += rect({kScheduleLeft, bottom - kLane, x.at(course.schedule.seconds) - kScheduleLeft, kLane}, "idle");
    made += label(kScheduleLeft - 8, bottom - kLane / 2 + 4, link_name(course, link), "", "end") +
            stacked(layers_of(busy, "x"), kScheduleLeft, column, bottom);
  }
  made += time_axis(kScheduleLeft, kScheduleRight, bottom, bottom + 4, 0, shown.seconds);
  return svg(bottom + 24, "what runs over the step, by resource", made);
}

Legend schedule_legend_of(const Shown& shown) {
  Legend legend;
  for (std::size_t kind = 0; kind < kKernelKinds; ++kind)
    legend.emplace_back(fmt::format("k{}", kind), name_of(static_cast<graph::KernelKind>(kind)));
  legend.emplace_back("wait", "waits for communication");
  std::vector<std::string> names(kAxesColours);
  for (const auto& [axes, colour] : shown.colours) names[colour] += (names[colour].empty() ? "" : ", ") + axes;
  for (std::size_t colour = 0; colour < names.size(); ++colour) {
    if (!names[colour].empty()) legend.emplace_back(fmt::format("x{}", colour), "over " + names[colour]);
  }
  return legend;
}

// "wo" for "decoder/layers/MoeBlock_0/wo/cast'/cast".
std::string short_name(const std::string& path) {
  std::vector<std::string> parts = split(path, '/');
  while (parts.size() > 1 && parts.back().starts_with("cast")) parts.pop_back();
  return parts.back();
}

std::string kernel_words(const Course& course, const Run& run) {
  const plan::Instruction& instruction = course.instruction(run.instruction);
  const bool is_copy = instruction.kind == plan::Instruction::Kind::copy;
  return fmt::format("{} ({}), {}", instruction.path, is_copy ? "copy" : graph::name_of(instruction.op),
                     human_seconds(run.finish - run.start));
}

std::string sent_words(const Sent& sent) {
  return fmt::format("{} {} over {} for {}", sent.name, sent.kind, sent.axes, sent.cause);
}

Box clipped(const Run& run, const page::Scale& x, double top) {
  const double begin = std::max(kScheduleLeft, x.at(run.start)), end = std::min(kScheduleRight, x.at(run.finish));
  return {begin, top, end - begin, kLane};
}

// A box with the first of these names that it has room for; the last name may be shortened. Nothing if the box is too narrow to draw.
std::string named(const Box& box, const std::string& classes, const std::string& title,
                  const std::vector<std::string>& names, const char* text = "on") {
  if (box.width < kLeastDrawn) return "";
  std::string made = rect(box, classes, title);
  for (const std::string& name : names) {
    const std::string words = fitting(name, box.width);
    if (!words.empty() && (words == name || &name == &names.back()))
      return made + label(box.x + 4, box.y + box.height / 2 + 4, words, text);
  }
  return made;
}

// The gaps between kernels, each with what the next kernel waits for.
std::string waits(const Course& course, const std::vector<Run>& runs, const page::Scale& x, double top) {
  std::string made;
  double idle_from = x.least;
  for (const Run& run : runs) {
    if (course.sent_by(run.instruction) != nullptr) continue;
    const Sent* sent = run.after < 0 ? nullptr : course.sent_by(run.after);
    const Box box = clipped({-1, idle_from, std::min(run.start, x.most), -1}, x, top);
    if (box.width >= kLeastDrawn && run.start > idle_from)
      made += named(box, "wait",
                    fmt::format("waits {}{}", human_seconds(run.start - idle_from),
                                sent == nullptr ? "" : " for " + sent_words(*sent)),
                    sent == nullptr ? std::vector<std::string>{}
                                    : std::vector<std::string>{"waits for " + sent->name, sent->name},
                    "");
    idle_from = std::max(idle_from, run.finish);
  }
  const Box box = clipped({-1, idle_from, x.most, -1}, x, top);
  return idle_from < x.most && box.width >= kLeastDrawn
             ? made + named(box, "wait", fmt::format("waits {}", human_seconds(x.most - idle_from)), {})
             : made;
}

// The memory that is live over a stretch of time, on a scale up to the usable memory or the peak, whichever is larger.
std::string memory_lane(const Course& course, const std::vector<Run>& runs, const page::Scale& x, double top) {
  const Forecast& f = course.shown.forecast;
  const double all = static_cast<double>(std::max(f.memory.peak, f.usable_memory));
  const auto columns = static_cast<std::size_t>(x.to - x.from);
  const Bins bins{columns, x.most - x.least};
  std::vector<plan::InstructionId> fullest(columns, -1);
  for (const Run& run : runs) {
    const InstructionId own = fullest_near(course, run.instruction);
    const auto column = [&](double time) {
      return std::clamp((time - x.least) / bins.width(), 0.0, static_cast<double>(columns - 1));
    };
    for (auto c = static_cast<std::size_t>(column(run.start)); c <= static_cast<std::size_t>(column(run.finish)); ++c) {
      if (fullest[c] < 0 || course.held_at(own) > course.held_at(fullest[c])) fullest[c] = own;
    }
  }
  for (std::size_t c = 1; c < columns; ++c) fullest[c] = fullest[c] < 0 ? fullest[c - 1] : fullest[c];
  const std::vector<Layer> layers = memory_layers(course, fullest, [&](double bytes) { return kMemoryLane * bytes / all; });
  const std::string words = fmt::format("of {}", human_bytes(all));
  return rect({x.from, top, x.to - x.from, kMemoryLane}, "idle") +
         label(x.from - 8, top + kMemoryLane / 2 - 2, "memory", "", "end") +
         label(x.from - 8, top + kMemoryLane / 2 + 12, words, "", "end") +
         stacked(layers, x.from, 1, top + kMemoryLane);
}

// The lanes of kernels, links and memory over the first `seconds` of the stretch of time that `x` covers.
std::string lanes(const Shown& shown, const Course& course, const page::Scale& x, double seconds) {
  const std::vector<Run> runs = runs_between(course, x.least, std::min(x.most, x.least + seconds));
  double top = 4;
  const page::Scale own{x.from, x.at(x.least + seconds), x.least, x.least + seconds};
  std::string made = label(kScheduleLeft - 8, top + kLane / 2 + 4, "compute", "", "end") + waits(course, runs, own, top);
  for (const Run& run : runs) {
    if (course.sent_by(run.instruction) != nullptr) continue;
    made += named(clipped(run, x, top), fmt::format("k{} edge", *kernel_shade(course, run.instruction)),
                  kernel_words(course, run), {short_name(course.instruction(run.instruction).path)});
  }
  for (const std::size_t link : links_of(course)) {
    top += kLane + kGap;
    made += rect({kScheduleLeft, top, own.to - kScheduleLeft, kLane}, "idle") +
            label(kScheduleLeft - 8, top + kLane / 2 + 4, link_name(course, link), "", "end");
    for (const Run& run : runs) {
      const Sent* sent = course.sent_by(run.instruction);
      if (sent == nullptr || !keeps_busy(course.timing(run.instruction), link)) continue;
      made += named(clipped(run, x, top), axes_class(shown, sent->axes) + " edge",
                    fmt::format("{}, {} a run of {}", sent_words(*sent), human_seconds(run.finish - run.start),
                                human_bytes(sent->what.operand_bytes)),
                    {fmt::format("{} {}", sent->name, short_name(sent->cause)), sent->name});
    }
  }
  top += kLane + kGap;
  made += memory_lane(course, runs, own, top);
  const double bottom = top + kMemoryLane;
  made += time_axis(kScheduleLeft, kScheduleRight, bottom, bottom + 4, 0, x.most - x.least);
  return svg(bottom + 24, "kernels and collectives of one layer", made);
}

// "; kernels wait longest for c21 (ragged-all-to-all for wo, 11.7 ms), ..."
std::string longest_waits(const Course& course, const LayerWindow& window) {
  std::vector<std::pair<double, const Sent*>> waits;
  for (const Sent& sent : course.shown.forecast.collectives) {
    if (window.loop < 0 || sent.instruction <= window.loop || sent.instruction >= course.instruction(window.loop).other)
      continue;
    const double a_run = sent.exposed / static_cast<double>(sent.what.runs);
    if (a_run > 0.01 * (window.end - window.begin)) waits.emplace_back(a_run, &sent);
  }
  std::stable_sort(waits.begin(), waits.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> words;
  for (std::size_t i = 0; i < std::min(kMostInLegend, waits.size()); ++i)
    words.push_back(fmt::format("{} ({} for {}, {})", waits[i].second->name, waits[i].second->kind,
                                short_name(waits[i].second->cause), human_seconds(waits[i].first)));
  return words.empty() ? "" : "; kernels wait longest for " + join(words, ", ");
}

std::string window_words(const Course& course, const LayerWindow& window) {
  const std::string seconds = human_seconds(window.end - window.begin);
  if (window.loop < 0) return fmt::format("{}, in the middle", seconds);
  return fmt::format("{}, {} \u00d7 {}{}", seconds, window.count, course.instruction(window.loop).path,
                     longest_waits(course, window));
}

std::string layer_figure(const Shown& shown, graph::Phase phase) {
  std::vector<std::optional<LayerWindow>> windows;
  double seconds = 0;
  for (const Course& course : shown.courses) {
    windows.push_back(layer_window(course, phase));
    if (windows.back()) seconds = std::max(seconds, windows.back()->end - windows.back()->begin);
  }
  if (seconds == 0) return "";
  std::string made = fmt::format(
      "<figure><figcaption>One layer of the {} pass, and what memory holds beside it</figcaption>", name_of(phase));
  for (std::size_t i = 0; i < windows.size(); ++i) {
    if (!windows[i]) continue;
    const page::Scale x{kScheduleLeft, kScheduleRight, windows[i]->begin, windows[i]->begin + seconds};
    made += fmt::format("<p class=\"note\">{}{}</p>", name_html(shown, i),
                        escaped(window_words(shown.courses[i], *windows[i])));
    made += lanes(shown, shown.courses[i], x, windows[i]->end - windows[i]->begin);
  }
  return made + "</figure>\n";
}

}  // namespace

std::string schedule_part(const Shown& shown) {
  std::string made =
      "<section id=\"schedule\"><h2>Schedule</h2><figure><figcaption>The whole step, by resource; a loop over layers "
      "as the mean of its iterations</figcaption>" +
      to_html(schedule_legend_of(shown));
  for (std::size_t i = 0; i < shown.courses.size(); ++i) made += name_html(shown, i) + overview(shown, i);
  made += "</figure>\n" + layer_figure(shown, graph::Phase::forward) + layer_figure(shown, graph::Phase::backward);
  return made + "</section>\n";
}

}  // namespace moesh::forecast
