#include "cli/bench_kernels.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/table.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/rates_words.h"
#include "measure/kernels.h"
#include "measure/rates.h"

namespace moesh::cli {
namespace {

using measure::KernelTime;
using measure::MachineRates;

// The fraction of the machine's peak, in FLOP/s or in memory bandwidth, that the kernel reaches: the larger of the two.
double share_of(const KernelTime& of, const MachineRates& rates) {
  const double products = of.work.flops / rates.of(of.work.dtype).large, memory = of.work.bytes / rates.stream;
  return std::max(products, memory) / of.seconds;
}

std::string words_of(const std::vector<KernelTime>& times, const MachineRates& rates, int width) {
  Table table({{"kernel", false, Room::cut}, {"operands", false, Room::cut, 2}, {"ms", true}, {"GFLOP/s", true},
               {"GB/s", true}, {"of the most", true}});
  for (const KernelTime& of : times) {
    table.add({fmt::format("{} {}", of.kernel.name, name_of(of.kernel.dtype)), of.sizes, fmt::format("{:.3f}", of.seconds * 1e3),
               giga(of.work.flops / of.seconds), giga(of.work.bytes / of.seconds), fmt::format("{:.0f}%", 100 * share_of(of, rates))});
  }
  return table.text(width) + "\n" + wrapped(rates_words(rates), width, 2);
}

std::string json_of(const std::vector<KernelTime>& times, const MachineRates& rates) {
  JsonWriter json;
  json.begin_object().key("machine");
  add(json, rates);
  json.line().key("kernels").begin_array();
  for (const KernelTime& of : times) {
    json.line().begin_object().key("kernel").value(of.kernel.name).key("type").value(std::string(name_of(of.kernel.dtype)));
    json.key("operands").value(of.sizes).key("seconds").value(of.seconds);
    json.key("flops").value(of.work.flops).key("bytes").value(of.work.bytes);
    json.key("share").value(share_of(of, rates)).end_object();
  }
  json.line().end_array().line().end_object();
  return json.text();
}

}  // namespace

int bench_kernels(const Arguments& arguments) {
  if (!arguments.request().empty() || arguments.has("--all")) {
    refuse(fmt::format("`bench kernels` with {}", arguments.request().empty() ? "--all" : arguments.request().front()), "the command line",
           "its sizes are its own: moesh bench kernels [--only TEXT] [--json] [--threads N]");
  }
  const std::string only = arguments.value("--only").value_or("");
  backend::Workers workers(threads_of(arguments));
  const std::vector<measure::TypedKernel> kernels = measure::kernels_with(only);
  if (kernels.empty())
    refuse(fmt::format("no kernel has '{}' in its name", shorten(only, 80)), "--only", "`moesh bench kernels` shows all of them");
  std::vector<KernelTime> times;
  {
    Progress progress("kernel", static_cast<std::int64_t>(kernels.size()));
    for (const measure::TypedKernel& kernel : kernels) {
      progress.advance(static_cast<std::int64_t>(times.size()), kernel.name);
      times.push_back(measure::time_of(kernel, workers));
    }
  }
  const MachineRates rates = measure::measure_rates(workers);
  if (arguments.has("--json")) fmt::print("{}\n", json_of(times, rates));
  else fmt::print("{}", words_of(times, rates, terminal_width()));
  return 0;
}

}  // namespace moesh::cli
