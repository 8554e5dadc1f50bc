// What a training step of MaxText holds, as XLA compiles it, or one of another program, and a planned one does not.
#pragma once

#include <cstdint>
#include <vector>

#include "forecast/resident.h"
#include "sharding/layout.h"

namespace moesh::forecast {

// Which values such a step holds as a whole. Plans compute them in pieces that stay in caches, or add them up in place.
struct Materialised {
  std::int64_t passes = 1;       // gradient_accumulation_steps: with several it holds the gradients of one besides their sums
  std::int64_t vocab_parts = 1;  // the parts in which it holds logits one after the other: num_vocab_tiling
  bool scores = false;           // attention=dot_product
  bool one_hot = false;          // use_iota_embed
  std::int64_t bytes_of_logit = 4;
};

// Bytes per device.
struct Unheld {
  std::int64_t logits = 0;     // with MaxText in float32, once
  std::int64_t scores = 0;     // of one layer's attention, in float32
  std::int64_t one_hot = 0;    // rows of zeros and a one that look embeddings up
  std::int64_t gradients = 0;  // of a pass

  // An instruction that would hold more: what lives at that time in the plan, and what is missing there.
  struct Moment {
    std::int64_t live = 0, missing = 0;
  };
  std::vector<Moment> moments = {};
};

Unheld unheld_of(const Resident& resident, const sharding::Layout& layout, const Materialised& there);

// The memory of steps compiled by XLA relative to that planned for the same steps, apart from what plans do not hold: the median over
// tests/golden/compiled.
inline constexpr double kTakenByXla = 1.13;

// The peak of XLA's step, for a planned peak.
std::int64_t peak_of_xla(std::int64_t planned, const Unheld& unheld);

}  // namespace moesh::forecast
