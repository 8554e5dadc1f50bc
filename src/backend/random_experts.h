// Scores that send tokens to random experts. They depend only on a key and on the token's number, so they are the same however the tokens
// are spread over devices.
#pragma once

#include <cmath>
#include <cstdint>

#include "backend/kernel.h"
#include "base/random.h"

namespace moesh::backend {

// The key, from the two int32 numbers in which a program is fed it.
inline RandomKey draw_key(const View& key) {
  return {static_cast<std::uint32_t>(key.as<std::int32_t>()[0]), static_cast<std::uint32_t>(key.as<std::int32_t>()[1])};
}

// The log of an expert's weight, (expert + 1)^-skew, plus Gumbel noise: the k experts with the largest scores are k draws without
// replacement.
inline float random_score(RandomKey key, std::int64_t token, std::int64_t expert, const graph::DrawOf& of) {
  const double uniform = random_uniform(key, static_cast<std::uint64_t>(token * of.experts + expert));
  return static_cast<float>(-std::log(-std::log(uniform)) - of.skew * std::log(static_cast<double>(expert + 1)));
}

}  // namespace moesh::backend
