// Loads and stores scalars of any floating type.
#pragma once

#include <cstdint>

#include "backend/element.h"
#include "backend/kernel.h"

namespace moesh::backend {

inline double load_at(const View& from, std::int64_t i) {
  double value = 0;
  for_floating(from.dtype, [&]<typename T>() { value = static_cast<double>(load(from.as<T>()[i])); });
  return value;
}

inline double load_scalar(const View& from) { return load_at(from, 0); }

inline void store_scalar(const View& to, double value) {
  for_floating(to.dtype, [&]<typename T>() { *to.as<T>() = store<T>(value); });
}

}  // namespace moesh::backend
