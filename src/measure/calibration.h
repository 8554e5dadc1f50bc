// A machine's own hardware file: how long its kernels and exchanges took in training steps, by how much work they had.
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

// One time that an instruction ran.
struct Sample {
  std::string name;       // as of forecast::Task
  std::string otherwise;
  double work = 0;        // once
  double seconds = 0;
};

// `spans` are those of a step of the plan.
std::vector<Sample> samples_of(const plan::Plan& plan, std::span<const run::Span> spans);

// Points by name, each of samples that had about as much work.
mesh::MeasuredTimes points_of(std::span<const Sample> samples);

struct MachineFacts {
  std::string title;  // "AMD EPYC, 2 threads"
  std::string date;   // on which it was measured
  int threads = 1;
  std::int64_t memory_bytes = 0;
};

// As mesh::load_chip reads it.
std::string hardware_file(const MachineFacts& facts, const MachineRates& rates, const mesh::MeasuredTimes& times);

}  // namespace moesh::measure
