// What a backend gives: for each op a function on the buffers of one device.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "backend/workers.h"
#include "base/bfloat16.h"
#include "base/dtype.h"
#include "base/shape.h"
#include "graph/graph.h"

namespace moesh::backend {

// The elements that C++ calls T.
template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::float32;
  else if constexpr (std::is_same_v<T, bfloat16>) return DType::bfloat16;
  else if constexpr (std::is_same_v<T, double>) return DType::float64;
  else if constexpr (std::is_same_v<T, std::int32_t>) return DType::int32;
  else {
    static_assert(std::is_same_v<T, bool>, "no DType");
    return DType::boolean;
  }
}

// A dense buffer, row-major.
struct View {
  void* data = nullptr;
  DType dtype = DType::float32;
  Shape shape;

  std::int64_t count() const { return elements(shape); }
  std::int64_t size(std::size_t dim) const { return shape[dim]; }
  template <typename T>
  T* as() const {
    assert(dtype == dtype_of<std::remove_const_t<T>>() && "a buffer is read as elements of another type");
    return static_cast<T*>(data);
  }
  std::byte* raw() const { return static_cast<std::byte*>(data); }  // to copy elements whatever they are
};

// A local kernel is given the operands of its own device. A collective, which a kernel makes where one process has all devices,
// is given each operand of all devices of its group, one device after the other.
struct KernelCall {
  const graph::Attributes& attributes;
  std::span<const View> operands;
  // Apart from each other and from the operands, but for those operands of a result's type and shape that plan::may_lie_in names: a
  // result may be the very memory of one.
  std::span<const View> results;
  Workers& workers;
  // Where the shards of operands and, behind them, of results begin in their values; empty when all are whole.
  std::span<const Shape> origins = {};
  std::int64_t member = 0;   // which device of the node's group this is
  std::int64_t members = 1;  // those whose operands are given

  // This device's, or another one's.
  const View& operand(std::int64_t i) const { return operand(i, members == 1 ? 0 : member); }
  const View& operand(std::int64_t i, std::int64_t of) const { return operands[static_cast<std::size_t>(i * members + of)]; }
};

// Products accumulate in float32 (in float64 for float64), and an element's result does not depend on how many threads
// there are nor on how many other rows stand beside it.
using Kernel = void (*)(const KernelCall&);

}  // namespace moesh::backend
