// Forecasts from a plan what a step of training or decoding takes on a machine: time, memory and communication.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "forecast/decoding.h"
#include "forecast/host_memory.h"
#include "forecast/memory.h"
#include "forecast/unheld.h"
#include "mesh/topology.h"
#include "partition/collectives.h"
#include "plan/plan.h"
#include "sharding/layout.h"

namespace moesh::forecast {

// An entry of the list of collectives: one instruction, with all its runs in a step.
struct Sent {
  partition::Collective what;
  std::string name;  // "c12": the twelfth of the plan
  std::string kind;  // "all-gather", "ragged-all-to-all", ...
  std::string axes;  // "fsdp+expert"
  plan::InstructionId instruction = -1;
  graph::Phase phase = graph::Phase::forward;
  double seconds = 0;   // of all runs together
  double exposed = 0;   // the part in which no kernel runs because one, or the step's end, waits for it
  double critical = 0;  // the part on the critical path
  std::string operand;  // "bfloat16[4096, 32, 128] as [expert, -, -]"
  std::string cause;    // the path of the node that needs it
  std::string tensor;   // the tensor that it moves, by the name of its buffer
};

// The total of several collectives, over all their runs.
struct SentTotal {
  std::int64_t collectives = 0, runs = 0, operand_bytes = 0;
  double wire_bytes = 0;  // that leave a device
  double seconds = 0, exposed = 0;

  void add(const Sent& sent);
  void add(const SentTotal& other);
};

// The total of the kernels of one kind, over all their runs.
struct KernelTime {
  std::string kind;
  std::int64_t runs = 0;
  double seconds = 0;
  double flops = 0;
  double critical = 0;
};

// The size of a step, over all devices.
struct StepSize {
  double tokens = 0;
  double model_flops = 0;  // forward and backward, without rematerialisation
};

// What a plan does not hold on its devices.
struct Elsewhere {
  std::vector<Offloaded> offloaded = {};  // values that wait in the host's memory
  Materialised materialised = {};         // what the step of the request's program would hold besides
};

// "bfloat16[4096, 32, 128] as [expert, -, -]"
std::string words_of(const plan::View& view, const mesh::Mesh& mesh);

// If the plan draws experts at random, times are those of the busiest device that is to be expected.
struct Forecast {
  double seconds = 0;  // per step
  double kernels = 0;  // the time in which kernels run
  double exposed = 0;  // the time in which no kernel runs, because of collectives
  double tokens_per_second_per_device = 0;
  std::optional<double> mfu;             // model FLOP/s relative to the chip's peak, if both are known
  std::vector<KernelTime> kernel_times;  // the longest first
  std::vector<Sent> collectives;         // in the plan's order
  Memory memory;
  HostMemory host;          // the values that wait in the host's memory
  double busiest_rows = 1;  // if the plan draws experts at random: rows of a layer's busiest device, relative to the mean
  Unheld unheld;            // what the step of the request's program would hold besides
  std::optional<std::string> program;  // that program; none for MaxText, whose step XLA compiles
  std::int64_t usable_memory = 0;
  std::optional<Decoding> decoding;  // of a step that decodes
  bool reduces_once = false;  // each device adds up its gradients over the step's passes before they are reduced
  bool is_of_chips = false;  // devices are chips, not virtual devices of one machine, whose steps take what is planned

  bool fits() const { return memory.peak <= usable_memory; }
  // Whether it fits, but would not if it took as much memory as XLA's steps do. Decoding holds little but weights and the KV cache, whose
  // bytes are known.
  bool fits_narrowly() const { return is_of_chips && !decoding && fits() && peak_of_xla(memory.peak, unheld) > usable_memory; }
};

Forecast forecast(const plan::Plan& plan, const sharding::Layout& layout, const mesh::Topology& target, const StepSize& size,
                  const Elsewhere& elsewhere = {});

}  // namespace moesh::forecast
