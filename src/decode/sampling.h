// Which token comes next, from the logits of all.
#pragma once

#include <cstdint>
#include <span>

#include "config/settings.h"

namespace moesh::decode {

struct Sampling {
  double temperature = 0;         // 0: the likeliest token
  std::int64_t top_k = 0;         // among so many of the likeliest; 0: among all
  double top_p = 1;               // among the likeliest that hold this share of the probability together
  double min_p = 0;               // among those that are this share as likely as the likeliest
  double repetition_penalty = 1;  // scores of tokens that were there are divided by it, or multiplied where they are below 0
  std::int64_t seed = 0;
};

// As decode_sampling_... say.
Sampling sampling_of(const config::Settings& settings);

// The token for a place of a text: it depends on nothing but these. What limits the choice goes by probabilities before the
// temperature, one limit after the other, and then the likeliest tokens come first; where nothing limits it they come by their
// numbers. `before`: the text's tokens; `text`: its number. Fails on logits that have no order.
std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> before, const Sampling& sampling, std::int64_t text);

}  // namespace moesh::decode
