#include "backend/cpu/isa.h"

#include <array>
#include <cstdlib>

#include <fmt/core.h>

#include "base/error.h"

namespace moesh::backend::cpu {
namespace {

constexpr std::array kAll{Isa::avx512_bf16, Isa::avx512, Isa::avx2, Isa::portable};

Isa best_of_machine() {
  for (const Isa isa : kAll) {
    if (machine_has(isa)) return isa;
  }
  return Isa::portable;
}

Isa parse(std::string_view name) {
  for (const Isa isa : kAll) {
    if (name != name_of(isa)) continue;
    if (!machine_has(isa)) {
      refuse(fmt::format("this machine has no {}", name), "MOESH_ISA",
             fmt::format("leave it unset: {} is then used", name_of(best_of_machine())));
    }
    return isa;
  }
  refuse(fmt::format("'{}' names no instructions", name), "MOESH_ISA", "one of portable, avx2, avx512, avx512_bf16");
}

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::portable: return "portable";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    case Isa::avx512_bf16: return "avx512_bf16";
  }
  return "";
}

bool machine_has(Isa isa) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
  switch (isa) {
    case Isa::portable: return true;
    case Isa::avx2: return avx2;
    case Isa::avx512: return avx512;
    case Isa::avx512_bf16: return avx512 && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16");
  }
  return false;
#else
  return isa == Isa::portable;
#endif
}

Isa chosen_isa() {
  static const Isa best = best_of_machine();
  const char* asked = std::getenv("MOESH_ISA");
  return asked == nullptr || *asked == '\0' ? best : parse(asked);
}

}  // namespace moesh::backend::cpu
