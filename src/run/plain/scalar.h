// Numbers that stand alone, of any floating type.
#pragma once

#include "run/cpu/element.h"
#include "run/kernel.h"

namespace moesh::run::plain {

inline double load_scalar(const View& from) {
  double value = 0;
  cpu::for_floating(from.dtype, [&]<typename T>() { value = static_cast<double>(cpu::load(*from.as<T>())); });
  return value;
}

inline void store_scalar(const View& to, double value) {
  cpu::for_floating(to.dtype, [&]<typename T>() { *to.as<T>() = cpu::store<T>(value); });
}

}  // namespace moesh::run::plain
