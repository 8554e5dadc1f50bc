#include "transport/device_sum.h"

#include <algorithm>

#include "backend/cpu/simd.h"

namespace moesh::transport {
namespace {

using backend::cpu::chosen_isa;
using backend::load;
using backend::store;

constexpr std::int64_t kPiece = 1024;

// Values are prefetched this many elements ahead, because the hardware prefetcher follows a run only to the end of a page.
constexpr std::int64_t kAhead = 512;

// Sets sum[i] to the sum of the values, or adds them to it, one value after the other.
template <std::size_t values, typename T>
[[gnu::always_inline]] inline void add(bool is_first, const T* const* of, std::int64_t first, std::int64_t count, Wide<T>* __restrict sum) {
  const T* from[values];
  for (std::size_t k = 0; k < values; ++k) from[k] = of[k] + first;
  backend::cpu::with_constant(is_first, [&](auto first_of_all) MOESH_LOOP {
    const auto add_element = [&](std::int64_t i) MOESH_LOOP {
      Wide<T> added = load(from[0][i]);
      if constexpr (!first_of_all) added += sum[i];
#pragma GCC unroll 8
      for (std::size_t k = 1; k < values; ++k) added += load(from[k][i]);
      sum[i] = added;
    };
    constexpr auto kLine = static_cast<std::int64_t>(64 / sizeof(T));
    std::int64_t i = 0;
    for (; i + kLine <= count; i += kLine) {
      for (std::size_t k = 0; k < values; ++k) __builtin_prefetch(from[k] + i + kAhead);
      MOESH_BY_ELEMENT
      for (std::int64_t j = 0; j < kLine; ++j) add_element(i + j);
    }
    for (; i < count; ++i) add_element(i);
  });
}

}  // namespace

template <typename T>
DeviceSum<T>::DeviceSum(std::span<const std::int64_t> steps)
    : isa_(chosen_isa()), steps_(steps), room_((steps_.size() + 1) * static_cast<std::size_t>(kPiece)) {}

// Adds up the devices that differ in this step and in those after it.
template <typename T>
void DeviceSum<T>::add_piece(std::size_t step, std::span<const T* const> values, std::int64_t first, std::int64_t count,
                             Wide<T>* sum) {
  if (step + 1 >= steps_.size()) return add_values(values, first, count, sum);
  const std::size_t each = values.size() / static_cast<std::size_t>(steps_[step]);
  add_piece(step + 1, values.subspan(0, each), first, count, sum);
  for (std::size_t begin = each; begin < values.size(); begin += each) {
    Wide<T>* part = room_.data() + (step + 1) * static_cast<std::size_t>(kPiece);
    add_piece(step + 1, values.subspan(begin, each), first, count, part);
    backend::cpu::vectorised(isa_, [&]() MOESH_LOOP { add<1, Wide<T>>(false, &part, 0, count, sum); });
  }
}

template <typename T>
void DeviceSum<T>::add_values(std::span<const T* const> values, std::int64_t first, std::int64_t count, Wide<T>* sum) {
  backend::cpu::vectorised(isa_, [&]() MOESH_LOOP {
    std::size_t begin = 0;
    const auto add_by = [&]<std::size_t together>() MOESH_LOOP {
      for (; values.size() - begin >= together; begin += together) add<together, T>(begin == 0, values.data() + begin, first, count, sum);
    };
    add_by.template operator()<8>();
    add_by.template operator()<4>();
    add_by.template operator()<2>();
    add_by.template operator()<1>();
  });
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
