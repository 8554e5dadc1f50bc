// Sums the values of several devices, in the order of mesh/sum_order.h.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cpu/isa.h"
#include "backend/element.h"
#include "backend/scratch_list.h"

namespace moesh::transport {

using backend::Wide;

// A sum is made piece by piece, so that at most one piece per step is held at a time. For one thread.
template <typename T>
class DeviceSum {
 public:
  explicit DeviceSum(std::span<const std::int64_t> steps);  // which must outlive the sum

  // to[i] = the sum of the devices' values[first + i], for i below `count`. The devices are numbered as the steps say.
  void add_up(std::span<const T* const> values, std::int64_t first, std::int64_t count, T* to);

 private:
  void add_piece(std::size_t step, std::span<const T* const> values, std::int64_t first, std::int64_t count, Wide<T>* sum);
  void add_values(std::span<const T* const> values, std::int64_t first, std::int64_t count, Wide<T>* sum);

  backend::cpu::Isa isa_;
  std::span<const std::int64_t> steps_;
  backend::ScratchList<Wide<T>> room_;  // a piece for each step
};

}  // namespace moesh::transport
