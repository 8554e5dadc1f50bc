// Runs the kernels for AMX on a machine without it, so that they are tested everywhere.
#pragma once

namespace moesh::backend::test {

// From now on the program carries out the instructions of tiles, if the machine has AVX-512 with bfloat16 but no AMX: each of them raises
// SIGILL, whose handler does what Intel's manual says and goes on after it. Misuse, which AMX would refuse too, ends the program.
void emulate_tiles();

}  // namespace moesh::backend::test
