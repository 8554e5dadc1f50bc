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
#include "cli/bench_plot.h"
#include "cli/rates_words.h"
#include "measure/kernels.h"
#include "measure/rates.h"

namespace moesh::cli {
namespace {

using measure::KernelTime;
using measure::Library;
using measure::MachineRates;

// The fraction of the machine's peak, in FLOP/s or in memory bandwidth, that the kernel reaches: the larger of the two.
double share_of(const KernelTime& of, const MachineRates& rates) {
  const double products = of.work.flops / rates.of(of.work.dtype).large, memory = of.work.bytes / rates.stream;
  return std::max(products, memory) / of.seconds;
}

std::string title_of(const KernelTime& of) { return fmt::format("{} {}", of.kernel.name, name_of(of.kernel.dtype)); }

std::string library_words(const std::vector<Library>& libraries) {
  if (libraries.empty()) return "No library is beside products: OpenBLAS (libopenblas0) and oneDNN (libdnnl) are not installed.\n";
  std::vector<std::string> names;
  for (const Library& library : libraries) names.push_back(library.name);
  return fmt::format("\"Library\" is how many times as fast as {}{} a product is, in turns.\n",
                     libraries.size() > 1 ? "the faster of " : "", join(names, " and "));
}

std::string words_of(const std::vector<KernelTime>& times, const std::vector<Library>& libraries, const MachineRates& rates, int width) {
  Table table({{"kernel", false, Room::cut},
               {"operands", false, Room::cut, 2},
               {"ms", true},
               {"GFLOP/s", true},
               {"GB/s", true},
               {"of the most", true},
               {"library", true}});
  for (const KernelTime& of : times) {
    const std::vector<double>& theirs = of.by_libraries;
    table.add({title_of(of), of.sizes, fmt::format("{:.3f}", of.seconds * 1e3), giga(of.work.flops / of.seconds),
               giga(of.work.bytes / of.seconds), fmt::format("{:.0f}%", 100 * share_of(of, rates)),
               theirs.empty() ? "" : fmt::format("{:.2f}", *std::min_element(theirs.begin(), theirs.end()) / of.seconds)});
  }
  return table.text(width) + "\n" + wrapped(library_words(libraries) + rates_words(rates), width, 2);
}

page::Bars bars_of(const std::vector<KernelTime>& times, const MachineRates& rates) {
  page::Bars made{"Kernels", "part of what the machine's rates allow", "", {}};
  for (const KernelTime& of : times) {
    const double share = share_of(of, rates);
    made.bars.push_back({title_of(of), share, {}, fmt::format("{:.0f}%, {:.3f} ms", 100 * share, of.seconds * 1e3)});
  }
  return made;
}

std::string json_of(const std::vector<KernelTime>& times, const std::vector<Library>& libraries, const MachineRates& rates) {
  JsonWriter json;
  json.begin_object().key("machine");
  add(json, rates);
  json.line().key("kernels").begin_array();
  for (const KernelTime& of : times) {
    json.line().begin_object().key("kernel").value(of.kernel.name).key("type").value(std::string(name_of(of.kernel.dtype)));
    json.key("operands").value(of.sizes).key("seconds").value(of.seconds);
    json.key("flops").value(of.work.flops).key("bytes").value(of.work.bytes);
    json.key("share").value(share_of(of, rates));
    if (!of.by_libraries.empty()) {
      json.key("library_seconds").begin_object();
      for (std::size_t i = 0; i < libraries.size(); ++i) json.key(libraries[i].name).value(of.by_libraries[i]);
      json.end_object();
    }
    json.end_object();
  }
  json.line().end_array().line().end_object();
  return json.text();
}

}  // namespace

int bench_kernels(const Arguments& arguments) {
  if (!arguments.request().empty() || arguments.has("--all")) {
    refuse(fmt::format("`bench kernels` with {}", arguments.request().empty() ? "--all" : arguments.request().front()), kCommandLine,
           "its sizes are its own: moesh bench kernels [--only TEXT] [--json] [--plot FILE] [--threads N]");
  }
  const std::string only = arguments.value("--only").value_or("");
  backend::Workers workers(threads_of(arguments));
  const std::vector<measure::TypedKernel> kernels = measure::kernels_with(only);
  if (kernels.empty())
    refuse(fmt::format("no kernel has '{}' in its name", shorten(only, 80)), "--only", "`moesh bench kernels` shows all of them");
  const std::vector<Library> libraries = measure::installed_libraries(workers.threads());
  std::vector<KernelTime> times;
  {
    Progress progress("kernel", static_cast<std::int64_t>(kernels.size()));
    for (const measure::TypedKernel& kernel : kernels) {
      progress.advance(static_cast<std::int64_t>(times.size()), kernel.name);
      times.push_back(measure::time_of(kernel, workers, libraries));
    }
  }
  const MachineRates rates = measure::measure_rates(workers);
  if (arguments.has("--json"))
    fmt::print("{}\n", json_of(times, libraries, rates));
  else
    fmt::print("{}", words_of(times, libraries, rates, terminal_width()));
  draw(arguments, [&] { return bars_of(times, rates); });
  return 0;
}

}  // namespace moesh::cli
