// Element types inside kernels: the type that is stored and the type that is computed in.
#pragma once

#include <cassert>
#include <type_traits>

#include "base/bfloat16.h"
#include "base/dtype.h"

namespace moesh::backend {

// float64 computes in float64, the others in float32.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T>
Wide<T> load(T value) {
  return static_cast<Wide<T>>(value);
}

template <typename T, typename W>
T store(W value) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return bfloat16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

// Calls body.template operator()<T>() with the C++ type of a floating dtype.
template <typename Body>
void for_floating(DType dtype, Body body) {
  switch (dtype) {
    case DType::float32: return body.template operator()<float>();
    case DType::bfloat16: return body.template operator()<bfloat16>();
    case DType::float64: return body.template operator()<double>();
    default: assert(false && "a floating type was expected");
  }
}

// Calls body.template operator()<T, R>() with the types of a product's operands and of its result. The result has the type of the operands,
// or is float32 for bfloat16 operands if the graph asks for that.
template <typename Body>
void with_product_types(DType operands, DType result, const Body& body) {
  for_floating(operands, [&]<typename T>() {
    if (result == operands) return body.template operator()<T, T>();
    assert(result == DType::float32);
    if constexpr (std::is_same_v<T, bfloat16>) body.template operator()<T, float>();
  });
}

}  // namespace moesh::backend
