// Emulates AMX on CPUs without it, so that its kernels are tested there too.
#pragma once

namespace moesh::backend::test {

// From this call on, the program emulates tile instructions if the CPU has AVX-512 with bfloat16 but no AMX: each of them raises SIGILL,
// whose handler does what Intel's manual says and continues after the instruction. Misuse that AMX would refuse too ends the program.
void emulate_tiles();

}  // namespace moesh::backend::test
