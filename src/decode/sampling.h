// Chooses the next token of a text from the logits.
#pragma once

#include <cstdint>
#include <span>

#include "config/settings.h"

namespace moesh::decode {

struct Sampling {
  double temperature = 0;         // 0 chooses the likeliest token
  std::int64_t top_k = 0;         // limits the choice to this many of the likeliest tokens; 0 for no limit
  double top_p = 1;               // limits it to the likeliest tokens that together have this share of the probability
  double min_p = 0;               // limits it to tokens with at least this fraction of the likeliest token's probability
  double repetition_penalty = 1;  // divides the scores of earlier tokens; negative scores are multiplied by it instead
  // Whether limits are on probabilities after the temperature, as in vLLM and with min_p first, or before it, as in MaxText.
  bool limits_after_temperature = false;
  std::int64_t seed = 0;
};

// The sampling that the settings decode_sampling_... describe.
Sampling sampling_of(const config::Settings& settings);

// Chooses the next token of a text; the result depends only on the arguments. The limits apply one after the other. The draw accumulates
// weights from the likeliest token on, or in the order of token ids if there is no limit. `before` has the text's tokens so far, and `text`
// is its number. Fails on logits that have no order, such as NaN.
std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> before, const Sampling& sampling, std::int64_t text);

}  // namespace moesh::decode
