#include "forecast/forecast.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "base/text.h"
#include "forecast/timed_step.h"

namespace moesh::forecast {
namespace {

using plan::Instruction;
using plan::Plan;

std::string kind_words(const Instruction& instruction, const partition::Collective& sent) {
  if (instruction.op == graph::Op::exchange_rows) return "ragged-all-to-all";
  if (sent.kind == graph::ReshardOf::Kind::permute) return "collective-permute";
  return std::string(graph::name_of(sent.kind));
}

std::string axes_words(sharding::AxisList axes, const mesh::Mesh& mesh) {
  std::sort(axes.begin(), axes.end());
  return join(sharding::names_of(axes, mesh), "+");
}

struct Lists {
  std::vector<KernelTime> kernels;
  std::vector<Sent> collectives;
};

Lists lists_of(const Plan& plan, const std::vector<Timing>& timings, const Schedule& schedule) {
  Lists lists;
  std::map<graph::KernelKind, KernelTime> by_kind;
  const std::vector<std::int64_t> runs = plan::runs_of(plan);
  for (std::size_t i = 0; i < timings.size(); ++i) {
    const Instruction& instruction = plan.instructions[i];
    const Timing& timing = timings[i];
    const double seconds = timing.seconds * static_cast<double>(runs[i]);
    if (timing.sent) {
      const plan::ViewId operand = instruction.operands[0];
      lists.collectives.push_back({*timing.sent, fmt::format("c{}", lists.collectives.size() + 1),
                                   kind_words(instruction, *timing.sent), axes_words(timing.sent->axes, plan.mesh),
                                   static_cast<plan::InstructionId>(i), instruction.phase, seconds, schedule.exposed[i],
                                   schedule.critical[i], words_of(plan.view(operand), plan.mesh), instruction.path,
                                   plan.buffer_of(operand).name});
      lists.collectives.back().what.runs = runs[i];
    } else if (timing.seconds > 0) {
      KernelTime& kernel = by_kind[timing.work.kind];
      kernel.kind = name_of(timing.work.kind);
      kernel.runs += runs[i];
      kernel.seconds += seconds;
      kernel.flops += timing.work.flops * static_cast<double>(runs[i]);
      kernel.critical += schedule.critical[i];
    }
  }
  for (const auto& [kind, kernel] : by_kind) lists.kernels.push_back(kernel);
  std::stable_sort(lists.kernels.begin(), lists.kernels.end(),
                   [](const KernelTime& a, const KernelTime& b) { return a.seconds > b.seconds; });
  return lists;
}

}  // namespace

void SentTotal::add(const Sent& sent) {
  add({1, sent.what.runs, sent.what.runs * sent.what.operand_bytes, sent.what.total_wire_bytes(), sent.seconds, sent.exposed});
}

void SentTotal::add(const SentTotal& other) {
  collectives += other.collectives;
  runs += other.runs;
  operand_bytes += other.operand_bytes;
  wire_bytes += other.wire_bytes;
  seconds += other.seconds;
  exposed += other.exposed;
}

std::string words_of(const plan::View& view, const mesh::Mesh& mesh) {
  const std::string type = fmt::format("{}{}", moesh::name_of(view.dtype), to_string(view.shape));
  return view.spec.dims.empty() ? type : type + " as " + sharding::to_string(view.spec, mesh);
}

Forecast forecast(const Plan& plan, const sharding::Layout& layout, const mesh::Topology& target, const StepSize& size,
                  const Elsewhere& elsewhere) {
  const RoutedRows rows(plan, Router::drawn);
  const PlacedPlan on_devices = placed(plan, target, elsewhere.offloaded);
  const auto [timings, schedule] = timed(on_devices, rows);
  Lists lists = lists_of(plan, timings, schedule);
  Forecast made;
  made.host = host_memory_of(plan, schedule, target.chip, elsewhere.offloaded);
  made.seconds = schedule.seconds + made.host.waits;
  made.kernels = schedule.kernels;
  made.exposed = std::max(0.0, schedule.seconds - schedule.kernels);  // the two are rounded differently
  const auto devices = static_cast<double>(plan.mesh.devices());
  made.tokens_per_second_per_device = size.tokens / devices / made.seconds;
  const double peak = target.chip.bf16_flops_per_second.value_or(target.chip.f32_rate().value_or(0));
  const double peak_of_all = target.chip.is_shared_machine() ? peak : peak * devices;
  if (peak > 0 && size.model_flops > 0) made.mfu = size.model_flops / made.seconds / peak_of_all;
  made.kernel_times = std::move(lists.kernels);
  made.collectives = std::move(lists.collectives);
  made.memory = memory_of(on_devices.resident, on_devices.arena, layout);
  if (!rows.counted().empty()) made.busiest_rows = rows.counted().front().load.busiest;
  made.unheld = unheld_of(on_devices.resident, layout, elsewhere.materialised);
  made.usable_memory = target.chip.usable_memory_bytes;
  made.is_of_chips = !target.chip.has_memory_of_host();
  return made;
}

}  // namespace moesh::forecast
