#include "backend/cpu/isa.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::backend::cpu {
namespace {

std::array<std::atomic<bool>, kIsas.size()> allowed{};

Isa best_of_machine() { return *std::find_if(kIsas.rbegin(), kIsas.rend(), machine_has); }

Isa parse(std::string_view name) {
  for (const Isa isa : kIsas) {
    if (name != name_of(isa)) continue;
    if (!can_run(isa)) {
      refuse(fmt::format("this machine has no {}", name), "MOESH_ISA",
             fmt::format("leave it unset: {} is then used", name_of(best_of_machine())));
    }
    return isa;
  }
  std::vector<std::string> names;
  for (const Isa isa : kIsas) names.emplace_back(name_of(isa));
  refuse(fmt::format("'{}' names no instructions", name), "MOESH_ISA", "one of " + join(names, ", "));
}

#if defined(__x86_64__)
// The AMX tile registers are granted to a process only on request, and then to all of its threads.
bool has_amx() {
  static const bool granted = [] {
    constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24;
    constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
    return (d & kBf16) != 0 && (d & kTile) != 0 && ::syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
  }();
  return granted;
}
#endif

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::portable: return "portable";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    case Isa::avx512_bf16: return "avx512_bf16";
    case Isa::amx_bf16: return "amx_bf16";
  }
  return "";
}

bool machine_has(Isa isa) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const bool bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
  switch (isa) {
    case Isa::portable: return true;
    case Isa::avx2: return avx2;
    case Isa::avx512: return avx512;
    case Isa::avx512_bf16: return bf16;
    case Isa::amx_bf16: return bf16 && has_amx();
  }
  return false;
#else
  return isa == Isa::portable;
#endif
}

void allow(Isa isa) { allowed[static_cast<std::size_t>(isa)] = true; }

bool can_run(Isa isa) { return machine_has(isa) || allowed[static_cast<std::size_t>(isa)]; }

Isa chosen_isa() {
  static const Isa best = best_of_machine();
  const char* asked = std::getenv("MOESH_ISA");
  return asked == nullptr || *asked == '\0' ? best : parse(asked);
}

}  // namespace moesh::backend::cpu
