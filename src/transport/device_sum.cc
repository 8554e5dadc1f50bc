#include "transport/device_sum.h"

#include <algorithm>

#include "backend/cpu/simd.h"

namespace moesh::transport {
namespace {

using backend::cpu::chosen_isa;
using backend::load;
using backend::store;

constexpr std::int64_t kPiece = 1024;

template <typename T>
[[gnu::always_inline]] inline void add(bool is_first, const T* __restrict from, std::int64_t count, Wide<T>* __restrict sum) {
  if (is_first) {
    for (std::int64_t i = 0; i < count; ++i) sum[i] = load(from[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) sum[i] += load(from[i]);
  }
}

}  // namespace

template <typename T>
DeviceSum<T>::DeviceSum(std::span<const std::int64_t> steps)
    : isa_(chosen_isa()), steps_(steps), room_((steps_.size() + 1) * static_cast<std::size_t>(kPiece)) {}

// Of devices that differ in this step and those behind it.
template <typename T>
void DeviceSum<T>::add_piece(std::size_t step, std::span<const T* const> values, std::int64_t first, std::int64_t count,
                             Wide<T>* sum) {
  const std::size_t each = step == steps_.size() ? 1 : values.size() / static_cast<std::size_t>(steps_[step]);
  for (std::size_t begin = 0; begin < values.size(); begin += each) {
    if (each == 1) {
      const T* from = values[begin] + first;
      backend::cpu::vectorised(isa_, [&]() MOESH_LOOP { add<T>(begin == 0, from, count, sum); });
    } else if (begin == 0) {
      add_piece(step + 1, values.subspan(0, each), first, count, sum);
    } else {
      Wide<T>* part = room_.data() + (step + 1) * static_cast<std::size_t>(kPiece);
      add_piece(step + 1, values.subspan(begin, each), first, count, part);
      backend::cpu::vectorised(isa_, [&]() MOESH_LOOP { add<Wide<T>>(false, part, count, sum); });
    }
  }
}

template <typename T>
void DeviceSum<T>::add_up(std::span<const T* const> values, std::int64_t first, std::int64_t count, T* to) {
  for (std::int64_t i = 0; i < count; i += kPiece) {
    const std::int64_t size = std::min(kPiece, count - i);
    if constexpr (std::is_same_v<T, Wide<T>>) {
      add_piece(0, values, first + i, size, to + i);
    } else {
      const Wide<T>* sum = room_.data();
      add_piece(0, values, first + i, size, room_.data());
      backend::cpu::vectorised(isa_, [&]() MOESH_LOOP {
        for (std::int64_t k = 0; k < size; ++k) to[i + k] = store<T>(sum[k]);
      });
    }
  }
}

template class DeviceSum<float>;
template class DeviceSum<bfloat16>;
template class DeviceSum<double>;

}  // namespace moesh::transport
