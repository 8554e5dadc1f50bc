// Numbers of 16, 8 and 4 bits, in which weights are stored but nothing is computed.
#pragma once

#include <cstdint>

namespace moesh::store {

float from_float16(std::uint16_t bits);     // IEEE binary16
std::uint16_t to_float16(float value);      // rounds to nearest, ties to even
float from_float8_e4m3(std::uint8_t bits);  // no infinities; NaN if all exponent and fraction bits are set
float from_float4_e2m1(unsigned bits);      // takes the lower four bits
float power_of_two(std::uint8_t exponent);  // 2^(exponent - 127), as MXFP4 writes the scale of 32 numbers

}  // namespace moesh::store
