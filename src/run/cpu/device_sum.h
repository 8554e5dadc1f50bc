// Adds up what several devices have, in the order of mesh/sum_order.h.
#pragma once

#include <span>
#include <vector>

#include "run/cpu/element.h"
#include "run/cpu/isa.h"

namespace moesh::run::cpu {

// A sum is made in pieces, so that between its steps no more than a piece of each is held. For one thread.
template <typename T>
class DeviceSum {
 public:
  explicit DeviceSum(std::vector<std::int64_t> steps);

  // to[i] = the sum of the devices' values[first + i], for i below `count`. The devices are numbered as the steps say.
  void add_up(std::span<const T* const> values, std::int64_t first, std::int64_t count, T* to);

 private:
  void add_piece(std::size_t step, std::span<const T* const> values, std::int64_t first, std::int64_t count, Wide<T>* sum);

  Isa isa_;
  std::vector<std::int64_t> steps_;
  std::vector<Wide<T>> room_;  // a piece for each step
};

}  // namespace moesh::run::cpu
