// Which instruction set (ISA) the kernels use: the best that the CPU has, or the one that MOESH_ISA names.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace moesh::backend::cpu {

// Each instruction set includes all those before it.
enum class Isa : std::uint8_t { portable, avx2, avx512, avx512_bf16, amx_bf16 };

inline constexpr std::array kIsas{Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx_bf16};

std::string_view name_of(Isa isa);
bool machine_has(Isa isa);

// Lets MOESH_ISA name an instruction set that the CPU lacks: the program emulates it, as tests do with AMX tiles.
void allow(Isa isa);

// Whether the CPU has the instruction set or the program emulates it.
bool can_run(Isa isa);

// The best instruction set of the CPU unless MOESH_ISA names another. Refuses an unknown name, and an instruction set that cannot run.
Isa chosen_isa();

}  // namespace moesh::backend::cpu
