// Loads and stores scalars of any floating type.
#pragma once

#include "backend/element.h"
#include "backend/kernel.h"

namespace moesh::backend {

inline double load_scalar(const View& from) {
  double value = 0;
  for_floating(from.dtype, [&]<typename T>() { value = static_cast<double>(load(*from.as<T>())); });
  return value;
}

inline void store_scalar(const View& to, double value) {
  for_floating(to.dtype, [&]<typename T>() { *to.as<T>() = store<T>(value); });
}

}  // namespace moesh::backend
