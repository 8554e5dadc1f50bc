// Writes a machine's own hardware file: how long its kernels and exchanges took in training steps, by the amount of their work.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "measure/rates.h"
#include "mesh/hardware.h"
#include "plan/plan.h"
#include "run/program.h"

namespace moesh::measure {

// One execution of an instruction.
struct Sample {
  std::string name;       // as in forecast::Task
  std::string otherwise;
  double work = 0;        // of one execution
  double seconds = 0;
};

// `spans`: those of one step of the plan.
std::vector<Sample> samples_of(const plan::Plan& plan, std::span<const run::Span> spans);

// Points by name, each the mean of samples that had about the same work.
mesh::MeasuredTimes points_of(std::span<const Sample> samples);

struct MachineFacts {
  std::string title;  // "AMD EPYC, 2 threads"
  std::string date;   // the date of the measurement
  int threads = 1;
  std::int64_t memory_bytes = 0;
};

// The text of the file, as mesh::load_chip reads it.
std::string hardware_file(const MachineFacts& facts, const MachineRates& rates, const mesh::MeasuredTimes& times);

}  // namespace moesh::measure
