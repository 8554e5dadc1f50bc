#include "forecast/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/core.h>

#include "base/table.h"
#include "base/text.h"

namespace moesh::forecast {
namespace {

constexpr std::size_t kMostListed = 12;
constexpr std::int64_t kSmallShare = 10;  // memory below a tenth of a device's goes unsaid

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

std::string summary(const Forecast& f, const plan::Plan& plan, const ReportOptions& options) {
  std::string text = fmt::format("A step takes {}: {} tokens/s a device", human_seconds(f.seconds),
                                 rate_words(f.tokens_per_second_per_device));
  if (options.model_flops > 0) {
    const double tera = options.model_flops / f.seconds / static_cast<double>(plan.mesh.devices()) / 1e12;
    text += fmt::format(", {} TFLOP/s a device", tera < 100 ? fmt::format("{:.3g}", tera) : with_commas(std::llround(tera)));
  }
  if (f.mfu) text += fmt::format(", {} of the peak FLOP/s{} (MFU)", percent(*f.mfu), options.mfu_is_of);
  text += fmt::format(".\nKernels run for {} of it; {} are communication that they wait for.\n",
                      human_seconds(f.kernels), human_seconds(f.exposed));
  if (f.reduces_once) text += "Each device adds up its gradients over all passes; those that devices share are reduced once.\n";
  return text;
}

std::string critical_words(const Forecast& f) {
  std::vector<std::string> parts;
  for (const KernelTime& kernel : f.kernel_times) {
    if (kernel.critical > 0.01 * f.seconds)
      parts.push_back(fmt::format("{} of {}", percent(kernel.critical / f.seconds), kernel.kind));
  }
  parts.push_back(fmt::format("{} of collectives", percent(critical_of_collectives(f) / f.seconds)));
  if (f.host.waits > 0) parts.push_back(fmt::format("{} of waits for the host", percent(f.host.waits / f.seconds)));
  return "On the critical path of the step: " + join(parts, ", ") + ".\n";
}

std::string kernel_table(const Forecast& f, int width) {
  Table table({{"kernels"},
               {"runs", true, Room::none, 1},
               {"time", true},
               {"of the step", true},
               {"PFLOP", true, Room::none, 2}});
  for (const KernelTime& kernel : f.kernel_times) {
    table.add({kernel.kind, with_commas(kernel.runs), human_seconds(kernel.seconds),
               percent(kernel.seconds / f.seconds),
               kernel.flops > 0 ? fmt::format("{:.3g}", kernel.flops / 1e15) : ""});
  }
  return table.text(width);
}

std::string component_table(const Memory& memory, int width) {
  Table table({{"memory of a device at the peak"}, {"", true}, {"", true}});
  for (int c = 0; c < kComponents; ++c) {
    const std::int64_t bytes = memory.components[static_cast<std::size_t>(c)];
    if (bytes == 0) continue;
    table.add({std::string(name_of(static_cast<Component>(c))), human_bytes(bytes),
               percent(static_cast<double>(bytes) / static_cast<double>(memory.peak))});
  }
  table.add_group({"all", human_bytes(memory.peak), ""});
  return table.text(width);
}

std::string held_table(const Forecast& f, const plan::Plan& plan, const ReportOptions& options) {
  Table table({{"held there", false, Room::cut_start},
               {"bytes", true},
               {"as", false, Room::cut, 2},
               {"component", false, Room::none, 1},
               {"from", true, Room::none, 3},
               {"to", true, Room::none, 3}});
  const std::size_t shown = options.all ? f.memory.held.size() : std::min(kMostListed, f.memory.held.size());
  std::int64_t left = 0;
  for (std::size_t i = 0; i < f.memory.held.size(); ++i) {
    const Held& held = f.memory.held[i];
    if (i >= shown) {
      left += held.bytes;
      continue;
    }
    table.add({held.name, human_bytes(held.bytes), held.view < 0 ? "" : words_of(plan.view(held.view), plan.mesh),
               std::string(name_of(held.component)), std::to_string(held.first), std::to_string(held.last)});
  }
  if (left > 0) table.add({fmt::format("{} more", f.memory.held.size() - shown), human_bytes(left), "", "", "", ""});
  return table.text(options.width);
}

// The collectives that take the longest, sorted by time; or all of them, in the plan's order.
std::string sent_table(const Forecast& f, const ReportOptions& options) {
  std::vector<std::size_t> order(f.collectives.size());
  std::iota(order.begin(), order.end(), 0);
  if (!options.all) {
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return f.collectives[a].seconds > f.collectives[b].seconds; });
  }
  const std::size_t shown = options.all ? order.size() : std::min(kMostListed, order.size());
  Table table({{"collective"},
               {"kind"},
               {"axes"},
               {"count", true},
               {"sent a run", true, Room::none, 2},
               {"time", true},
               {"exposed", true, Room::none, 1},
               {"for", false, Room::cut_start}});
  SentTotal rest;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Sent& sent = f.collectives[order[i]];
    if (i >= shown) {
      rest.add(sent);
      continue;
    }
    table.add({sent.name, sent.kind, sent.axes, with_commas(sent.what.runs), human_bytes(sent.what.wire_bytes),
               human_seconds(sent.seconds), human_seconds(sent.exposed), sent.cause});
  }
  if (shown < order.size())
    table.add({fmt::format("{} more", rest.collectives), "", "", "", "", human_seconds(rest.seconds), human_seconds(rest.exposed), ""});
  return table.text(options.width);
}

// What a device sends by kind and axes, the longest-running first.
std::string totals_table(const Forecast& f, int width) {
  std::map<std::pair<std::string, std::string>, SentTotal> totals;
  for (const Sent& sent : f.collectives) totals[{sent.kind, sent.axes}].add(sent);
  std::vector<std::pair<std::pair<std::string, std::string>, SentTotal>> sorted(totals.begin(), totals.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  Table table({{"sent in a step"}, {"axes"}, {"count", true}, {"a device", true}, {"time", true}, {"exposed", true, Room::none, 1}});
  for (const auto& [key, total] : sorted) {
    table.add({key.first, key.second, with_commas(total.runs), human_bytes(total.wire_bytes), human_seconds(total.seconds),
               human_seconds(total.exposed)});
  }
  return table.text(width);
}

double bytes_sent(const Forecast& f) {
  SentTotal all;
  for (const Sent& sent : f.collectives) all.add(sent);
  return all.wire_bytes;
}

std::string host_words(const HostMemory& host) {
  if (host.bytes == 0) return "";
  const std::string kept = fmt::format("Besides, {} wait in the host's memory", human_bytes(host.bytes));
  if (!host.seconds) return kept + "; how fast it is reached is not known, so the way there costs nothing here.\n";
  return kept + fmt::format(": {} there and as long back, {} of it waited for.\n", human_seconds(*host.seconds), human_seconds(host.waits));
}

std::string unheld_words(const Unheld& unheld) {
  std::vector<std::string> words;
  if (unheld.logits > 0) words.push_back(human_bytes(unheld.logits) + " of logits");
  if (unheld.scores > 0) words.push_back(human_bytes(unheld.scores) + " of attention scores");
  if (unheld.one_hot > 0) words.push_back(human_bytes(unheld.one_hot) + " of one-hot rows");
  if (unheld.gradients > 0) words.push_back(human_bytes(unheld.gradients) + " of a pass's gradients");
  return join(words, " and ");
}

}  // namespace

double critical_of_collectives(const Forecast& f) {
  return std::accumulate(f.collectives.begin(), f.collectives.end(), 0.0, [](double sum, const Sent& sent) { return sum + sent.critical; });
}

std::string engine_words(const Forecast& f) {
  if (!f.is_of_chips) return "";
  const std::string besides = unheld_words(f.unheld);
  const std::string engine = f.program.value_or("XLA");
  const Unheld& u = f.unheld;
  if (f.fits_narrowly()) {
    const std::int64_t peak = peak_of_xla(f.memory.peak, u);
    if (peak > peak_of_xla(f.memory.peak, {}))
      return fmt::format(" {}'s step would take about {}: it holds {} besides.", engine, human_bytes(peak), besides);
    return fmt::format(" XLA's step would take about {}: {} times what is planned, on the median.", human_bytes(peak), kTakenByXla);
  }
  if ((u.logits + u.scores + u.one_hot + u.gradients) * kSmallShare < f.usable_memory) return "";
  return fmt::format(" {}'s step would hold {} besides.", engine, besides);
}

std::string fit_words(const Forecast& f) {
  const std::string peak = human_bytes(f.memory.peak), usable = human_bytes(f.usable_memory);
  const std::int64_t left = f.usable_memory - f.memory.peak;
  if (!f.fits()) {
    const std::string missing = fmt::format("{} are there, {} are missing", usable, human_bytes(-left));
    return fmt::format("It does not fit: {} at the peak, {}.\n", peak, missing) + host_words(f.host);
  }
  const std::string fit = f.fits_narrowly() ? "It fits narrowly" : "It fits";
  return fmt::format("{}: {} of {} at the peak, {} are left.{}\n{}", fit, peak, usable, human_bytes(left), engine_words(f),
                     host_words(f.host));
}

std::string place_words(const plan::Plan& plan, plan::InstructionId at) {
  if (plan.instructions.empty()) return "nowhere";
  const auto place = std::min(static_cast<std::size_t>(at), plan.instructions.size() - 1);
  std::vector<std::string> loops;
  for (std::size_t i = 0; i <= place; ++i) {
    if (plan.instructions[i].kind == plan::Instruction::Kind::end) loops.pop_back();
    if (plan.instructions[i].kind == plan::Instruction::Kind::loop) loops.push_back(plan.instructions[i].path);
  }
  const plan::Instruction& instruction = plan.instructions[place];
  const bool is_loop =
      instruction.kind == plan::Instruction::Kind::loop || instruction.kind == plan::Instruction::Kind::end;
  const std::string op(is_loop                                             ? "a loop's border"
                       : instruction.kind == plan::Instruction::Kind::copy ? "a copy"
                                                                           : graph::name_of(instruction.op));
  return fmt::format("{}at {} ({}, {}; instruction {})", loops.empty() ? "" : fmt::format("in {}, ", join(loops, ", ")),
                     instruction.path, op, name_of(instruction.phase), place);
}

std::string report(const Forecast& f, const std::optional<Routing>& routing, const plan::Plan& plan, const ReportOptions& options) {
  const int width = options.width;
  const std::string step = f.decoding ? decoding_words(f) : summary(f, plan, options);
  std::string text = wrapped(fit_words(f) + step + critical_words(f) + "\n", width, 2);
  if (routing) text += to_text(*routing, width) + "\n";
  if (f.decoding) text += cache_table(*f.decoding, width) + "\n";
  text += component_table(f.memory, width) + "\n";
  text += wrapped(fmt::format("The peak is {}.\n", place_words(plan, f.memory.at)), width, 2) +
          held_table(f, plan, options) + "\n";
  if (!f.collectives.empty()) {
    text += sent_table(f, options) + "\n" + totals_table(f, width);
    text += wrapped(fmt::format("A device sends {} in a step; `moesh why {} {}...` tells why.\n\n", human_bytes(bytes_sent(f)),
                                f.collectives.front().name, option_words(f)),
                    width, 2);
  }
  return text + kernel_table(f, width);
}

}  // namespace moesh::forecast
