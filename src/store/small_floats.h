// Numbers of 16, 8 and 4 bits that weights are written in and nothing is computed in.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moesh::store {

float from_float16(std::uint16_t bits);     // IEEE's
std::uint16_t to_float16(float value);      // the nearest, of two the even one
float from_float8_e4m3(std::uint8_t bits);  // without infinities; all ones are no number
float from_float4_e2m1(unsigned bits);      // the lower four
float power_of_two(std::uint8_t exponent);  // 2^(exponent - 127), as MXFP4 writes the scale of 32 numbers

}  // namespace moesh::store
