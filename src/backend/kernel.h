// The interface of a backend's kernels: for each op, a function on the buffers of one device.
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

// The DType of elements that C++ calls T.
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
  std::byte* raw() const { return static_cast<std::byte*>(data); }  // to copy elements of any type
};

// A kernel is given the operands of its own device. A function of the transport that exchanges rows is called in the same way, but is given
// every operand of all devices of its group: for each operand, one device after the other.
struct KernelCall {
  const graph::Attributes& attributes;
  std::span<const View> operands;
  // Results overlap neither each other nor the operands, with one exception: a result may be the same memory as an operand of its type and
  // shape that plan::may_lie_in names.
  std::span<const View> results;
  Workers& workers;
  // Where the shards of the operands, and after them those of the results, begin in their values; empty if all are whole.
  std::span<const Shape> origins = {};
  std::int64_t member = 0;   // this device's index in the node's group
  std::int64_t members = 1;  // the number of devices whose operands are given

  // The operand of this device, or of the group's device `of`.
  const View& operand(std::int64_t i) const { return operand(i, members == 1 ? 0 : member); }
  const View& operand(std::int64_t i, std::int64_t of) const { return operands[static_cast<std::size_t>(i * members + of)]; }
};

// Products accumulate in float32 (float64 for float64 operands). An element's result depends neither on the number of threads nor on how
// many other rows are computed with it, with one exception: attention of a single query per row, as in decoding, adds up in another order
// than attention of several.
using Kernel = void (*)(const KernelCall&);

}  // namespace moesh::backend
