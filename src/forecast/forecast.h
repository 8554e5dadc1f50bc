// What a training step will take on a machine, from its plan: time, memory, and what is sent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forecast/host_memory.h"
#include "forecast/memory.h"
#include "mesh/topology.h"
#include "partition/collectives.h"
#include "plan/plan.h"
#include "sharding/layout.h"

namespace moesh::forecast {

// An entry of the list of collectives: one instruction, as often as it runs.
struct Sent {
  partition::Collective what;
  std::string name;  // "c12": the twelfth of the plan
  std::string kind;  // "all-gather", "ragged-all-to-all", ...
  std::string axes;  // "fsdp+expert"
  plan::InstructionId instruction = -1;
  graph::Phase phase = graph::Phase::forward;
  double seconds = 0;   // all runs together
  double exposed = 0;   // of them, while no kernel runs and one waits
  double critical = 0;  // of them, on the longest chain of what waits for one another
  std::string operand;  // "bfloat16[4096, 32, 128] as [expert, -, -]"
  std::string cause;    // the node that it is made for
  std::string tensor;   // what it moves
};

// Some collectives, all runs together.
struct SentTotal {
  std::int64_t collectives = 0, runs = 0, operand_bytes = 0;
  double wire_bytes = 0;  // that a device sends
  double seconds = 0, exposed = 0;

  void add(const Sent& sent);
  void add(const SentTotal& other);
};

// Kernels of one kind, all runs together.
struct KernelTime {
  std::string kind;
  std::int64_t runs = 0;
  double seconds = 0;
  double flops = 0;
  double critical = 0;
};

// What a step works on, all devices together.
struct StepSize {
  double tokens = 0;
  double model_flops = 0;  // forward and backward, without what is computed again
};

// "bfloat16[4096, 32, 128] as [expert, -, -]"
std::string words_of(const plan::View& view, const mesh::Mesh& mesh);

// Memory that XLA's compiled steps take at the peak, by what is planned of the same ones: the median of those in tests/golden/compiled.
inline constexpr double kTakenByXla = 1.14;

// Where the plan draws experts at random, times are those of the busiest devices that are to be expected.
struct Forecast {
  double seconds = 0;  // of a step
  double kernels = 0;  // in which kernels run
  double exposed = 0;  // in which none does, because of collectives
  double tokens_per_second_per_device = 0;
  double mfu = 0;                        // model flops by the chip's peak; 0 where that is not known
  std::vector<KernelTime> kernel_times;  // the longest first
  std::vector<Sent> collectives;         // in the plan's order
  Memory memory;
  HostMemory host;  // where values are kept there
  double busiest_rows = 1;  // where the plan draws experts at random: rows of a layer's busiest device, by the mean
  std::int64_t usable_memory = 0;
  bool is_of_chips = false;  // rather than of devices that a machine plays, whose steps take what is planned

  bool fits() const { return memory.peak <= usable_memory; }
  // Whether it would not if it took more by as much as XLA's steps do.
  bool fits_narrowly() const {
    return is_of_chips && fits() && kTakenByXla * static_cast<double>(memory.peak) > static_cast<double>(usable_memory);
  }
};

Forecast forecast(const plan::Plan& plan, const sharding::Layout& layout, const mesh::Topology& target,
                  const StepSize& size, const std::vector<Offloaded>& offloaded = {});

}  // namespace moesh::forecast
