// Which vector instructions the kernels use: the best the machine has, or what MOESH_ISA asks for.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace moesh::backend::cpu {

// Each has all that stands before it.
enum class Isa : std::uint8_t { portable, avx2, avx512, avx512_bf16, amx_bf16 };

inline constexpr std::array kIsas{Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx_bf16};

std::string_view name_of(Isa isa);
bool machine_has(Isa isa);

// Refuses an unknown name in MOESH_ISA, and instructions the machine lacks.
Isa chosen_isa();

}  // namespace moesh::backend::cpu
