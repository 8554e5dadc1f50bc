// How much queries are to grow that see ever more.
#pragma once

#include <cmath>
#include <cstdint>

#include "backend/kernel.h"

namespace moesh::backend {

inline void temper(const KernelCall& call) {
  const auto& of = std::get<graph::TemperOf>(call.attributes);
  for (std::int64_t i = 0; i < call.results[0].count(); ++i) {
    const double place = call.operands[0].as<std::int32_t>()[i];
    call.results[0].as<float>()[i] = static_cast<float>(1 + of.scale * std::log1p(std::floor((place + 1) / of.floor)));
  }
}

}  // namespace moesh::backend
