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

// From now on MOESH_ISA may ask for them though the machine lacks them: the program itself carries them out, as tests do with tiles.
void allow(Isa isa);

// Whether the machine has them or the program carries them out.
bool can_run(Isa isa);

// The best of the machine unless MOESH_ISA asks for others. Refuses an unknown name, and instructions that cannot run.
Isa chosen_isa();

}  // namespace moesh::backend::cpu
