#include "train/run_words.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "backend/backend.h"
#include "backend/cpu/isa.h"
#include "base/table.h"
#include "base/text.h"
#include "config/batch_words.h"

namespace moesh::train {
namespace {

constexpr double kWorthTelling = 0.01;  // waiting is reported above this share of a run's time

// How the last step used the experts, and how many bytes that moved between devices.
std::string load_words(const RunSummary& run) {
  const ExpertLoad& load = run.load;
  double dropped = 0, choices = 0;
  for (const double d : load.dropped) dropped += d;
  for (const double t : load.tokens) choices += t;
  std::string words = fmt::format("Experts in the last step: the busiest of a layer had {:.2f} times the mean; {:.0f} of {} dropped",
                                  load.max_over_mean(), dropped, counted(static_cast<std::int64_t>(choices), "choice"));
  if (load.sent.empty()) return words + ".\n";
  const auto [least, most] = std::minmax_element(load.sent.begin(), load.sent.end());
  return words + fmt::format(".\nSent to and from them: {} to {} a device, {} with an even router.\n", human_bytes(*least),
                             human_bytes(*most), human_bytes(run.planned_in_regions));
}

std::string devices_words(const TrainRequest& request) {
  const std::string devices = counted(request.devices, "device");
  const std::int64_t owners = request.settings.integer("owners");
  return owners == 1 ? devices : fmt::format("{} of {}", devices, counted(owners, "owner"));
}

// The name of the kernels' ISA, or of the backend if that is not the CPU.
std::string_view kernels_of(const config::Settings& settings) {
  const backend::Backend& chosen = backend::find_backend(settings.text("backend"));
  return chosen.name == backend::cpu_backend().name ? name_of(backend::cpu::chosen_isa()) : chosen.name;
}

}  // namespace

std::string header_words(const TrainRequest& request, const ModelSize& size, const std::string& data, const backend::Workers& workers) {
  return fmt::format("{}\n{} parameters, {} active; {}, from {}\n{} of this machine ({}) play{} {}, each with {} of parameters "
                     "and moments\n",
                     request.headline, human_count(static_cast<double>(size.parameters)), human_count(static_cast<double>(size.active)),
                     config::batch_words(request.batch, request.settings.integer("max_target_length"), request.devices), data,
                     counted(workers.threads(), "thread"), kernels_of(request.settings), workers.threads() == 1 ? "s" : "",
                     devices_words(request), human_bytes(sharding::state_bytes(request.where.layout)));
}

std::string peak_words(const Footprint& footprint, std::int64_t of_process) {
  return fmt::format("at the peak a device holds {}; this process, equal shards once: {}, {} in all\n", human_bytes(footprint.device),
                     human_bytes(footprint.process), human_bytes(of_process));
}

std::string step_line(const StepMetrics& m, const StepSpeed& speed, bool is_moe) {
  std::vector<std::string> fields{
      fmt::format("completed step: {}", m.step),
      fmt::format("seconds: {:.3f}", speed.seconds),
      fmt::format("TFLOP/s/device: {:.3f}", speed.flops / speed.seconds / 1e12),
      fmt::format("Tokens/s/device: {:.3f}", speed.tokens / speed.seconds),
      fmt::format("total_weights: {:.0f}", m.total_weights),
      fmt::format("loss: {:.3f}", m.loss),
      fmt::format("lm_loss: {:.3f}", m.lm_loss),
      fmt::format("perplexity: {:.3f}", std::exp(m.lm_loss)),
  };
  if (is_moe) fields.push_back(fmt::format("moe_lb_loss: {:.6f}", m.balance_loss));
  // As in MaxText: of several microbatches mtp_loss is the sum, though the loss has its mean.
  if (m.mtp_loss) fields.push_back(fmt::format("main_model_loss: {:.3f}, mtp_loss: {:.3f}", m.loss - *m.mtp_loss, *m.mtp_loss));
  if (m.index_loss) fields.push_back(fmt::format("indexer_loss: {:.6f}", *m.index_loss));
  return join(fields, ", ");
}

std::string short_step_line(const StepMetrics& m, const StepSpeed& speed, std::int64_t steps, int columns) {
  const std::string last = std::to_string(std::max<std::int64_t>(0, steps - 1));
  std::vector<std::string> fields{
      fmt::format("step {:>{}} of {}", m.step, last.size(), last),
      fmt::format("loss {:.4f}", m.loss),
      fmt::format("{:>7} tokens/s", with_commas(std::llround(speed.tokens * speed.devices / speed.seconds))),
      human_seconds(speed.seconds),
      fmt::format("gradient norm {:.3g}", m.raw_grad_norm),
  };
  if (m.load.layers() > 0) fields.insert(fields.begin() + 4, fmt::format("busiest expert {:.2f} x the mean", m.load.max_over_mean()));
  while (fields.size() > 2 && display_width(join(fields, "   ")) > columns) fields.pop_back();
  return join(fields, "   ");
}

std::string eval_line(const EvalMetrics& m, const config::Settings& settings) {
  std::vector<std::string> fields{
      fmt::format("Completed eval after train step {}", m.step),
      fmt::format("loss={:.3f}", m.loss),
      fmt::format("perplexity={:.3f}", std::exp(m.loss)),
      fmt::format("total_weights={:.1f}", m.total_weights),
      fmt::format("avg_z_loss={:.3f}", m.z_loss),
  };
  if (settings.integer("num_experts") > 1) fields.push_back(fmt::format("avg_moe_lb_loss={:.3f}", m.balance_loss));
  if (m.mtp_acceptance)
    fields.push_back(fmt::format("avg_mtp_loss={:.3f}, avg_mtp_acceptance_rate={:.2f}%", *m.mtp_loss, *m.mtp_acceptance));
  if (m.index_loss) fields.push_back(fmt::format("avg_indexer_loss={:.3f}", *m.index_loss));
  return join(fields, ", ");
}

std::string summary_words(const RunSummary& run) {
  const std::string ended = run.interrupted ? "interrupted: " : run.reached_target ? "target_eval_loss is reached: " : "";
  if (run.steps == 0) {
    const bool is_asked_for = !run.interrupted && run.evaluations == 0;
    return ended + (run.evaluations > 0 ? "the evaluation that was missing is done; " : "") + "no step was made" +
           (is_asked_for ? ", as steps=0 asks.\n" : ".\n");
  }
  std::string words = fmt::format("{}{} in {}, {:.0f} tokens/s; loss {:.3f} -> {:.3f}; peak {} of values.\n", ended,
                                  counted(run.steps, "step"), human_seconds(run.seconds), run.tokens / run.seconds, run.first_loss,
                                  run.last_loss, human_bytes(run.peak_bytes));
  if (run.waited_for_data > kWorthTelling * run.seconds) {
    words += fmt::format("Steps waited {} for data, {:.1f}% of the time.\n", human_seconds(run.waited_for_data),
                         100 * run.waited_for_data / run.seconds);
  }
  if (run.updates_left_out > 0) {
    words += fmt::format("{} left out: a loss or gradient was not finite, or a spike.\n", counted(run.updates_left_out, "update"));
  }
  if (run.lines_left_out > 0) {
    words += fmt::format("Left out of the data: {} that could not be read.\n", counted(run.lines_left_out, "line"));
  }
  return words + (run.load.experts > 0 ? load_words(run) : "");
}

std::string audit_words(const run::Audit& audit, int columns) {
  Table table({{"collective"},
               {"made by", false, Room::cut_start},
               {"runs", true},
               {"planned", true},
               {"bytes moved", true},
               {"planned", true},
               {""}});
  for (const run::AuditLine& line : folded(audit.collectives)) {
    table.add({std::string(name_of(line.kind)), line.path, with_commas(line.runs), with_commas(line.planned_runs), with_commas(line.bytes),
               (line.is_bound ? "at most " : "") + with_commas(line.planned_bytes), line.holds() ? "" : "differs"});
  }
  const std::string memory = fmt::format("memory of this process: {} bytes, planned {}\n", with_commas(audit.memory),
                                         with_commas(audit.planned_memory));
  std::int64_t bytes = 0, planned = 0;
  bool is_bound = false;
  for (const run::AuditLine& line : audit.collectives) {
    bytes += line.bytes;
    planned += line.planned_bytes;
    is_bound = is_bound || line.is_bound;
  }
  const std::string all = fmt::format("all collectives: {} bytes moved, planned {}{}\n", with_commas(bytes), is_bound ? "at most " : "",
                                      with_commas(planned));
  return "Run and plan, all devices together:\n" + (audit.collectives.empty() ? "no collectives\n" : table.text(columns) + all) + memory;
}

}  // namespace moesh::train
