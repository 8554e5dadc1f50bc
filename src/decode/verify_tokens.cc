#include "decode/verify_tokens.h"

#include <algorithm>
#include <optional>

#include <fmt/core.h>

#include "base/error.h"
#include "decode/decoder.h"
#include "decode/weights.h"

namespace moesh::decode {
namespace {

using train::RecordedPrompt;

// The same new tokens in every row.
NewTokens in_all_rows(const std::vector<std::int32_t>& ids, std::int64_t first, std::int64_t rows) {
  NewTokens tokens;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      tokens.ids.push_back(ids[i]);
      tokens.positions.push_back(static_cast<std::int32_t>(first + static_cast<std::int64_t>(i)));
      tokens.segments.push_back(1);
    }
  }
  return tokens;
}

// The logits at the last position of a row.
std::vector<double> last_logits(const run::Array& logits, std::int64_t row) {
  const std::int64_t length = logits.view.shape[1], vocabulary = logits.view.shape[2];
  const float* first = logits.as<float>() + ((row + 1) * length - 1) * vocabulary;
  return {first, first + vocabulary};
}

struct Held {
  explicit Held(double logits_tolerance) : logits("logits while decoding", logits_tolerance) {}

  train::Worst tokens{"tokens that differ", 0};
  train::Worst logits;
};

// Compares the logits of all rows with those of a recorded token. Returns the token that is likeliest in every row, or -1 if rows
// disagree.
std::int32_t see(const RecordedPrompt& of, std::size_t at, const run::Array& logits, Held& held) {
  std::int32_t token = -1;
  for (std::int64_t row = 0; row < logits.view.shape[0]; ++row) {
    const std::vector<double> mine = last_logits(logits, row);
    const auto theirs = of.logits.begin() + static_cast<std::ptrdiff_t>(at * mine.size());
    held.logits.see(
        train::largest_difference(mine, std::vector<double>(theirs, theirs + static_cast<std::ptrdiff_t>(mine.size()))),
        fmt::format("{}, token {}", of.name, at));
    const auto likeliest = static_cast<std::int32_t>(std::max_element(mine.begin(), mine.end()) - mine.begin());
    if (row > 0 && likeliest != token) return -1;
    token = likeliest;
  }
  return token;
}

// Follows a recorded text until a token differs, since the tokens after it would belong to another text.
void follow(const RecordedPrompt& of, Decoder& decoder, Ready& prefill, Ready& step, std::int64_t rows, Held& held) {
  decoder.forget();
  run::Array logits = decoder.run(prefill, in_all_rows(of.prompt, 0, rows));
  for (std::size_t at = 0; at < of.tokens.size(); ++at) {
    const std::int32_t token = see(of, at, logits, held);
    const auto left = static_cast<double>(of.tokens.size() - at);
    if (token != of.tokens[at]) return held.tokens.see(left, fmt::format("{}, from token {} on", of.name, at));
    if (at + 1 < of.tokens.size())
      logits = decoder.run(step, in_all_rows({token}, static_cast<std::int64_t>(of.prompt.size() + at), rows));
  }
  held.tokens.see(0, of.name);
}

// The programs for one token, and for the length of each prompt.
struct Programs {
  Program step;
  std::vector<Program> prompts;
};

Programs make_programs(const train::RecordedModel& recorded, const models::ModelRequest& request,
                       const mesh::Topology& target) {
  std::int64_t slots = 1;
  for (const RecordedPrompt& of : recorded.prompts)
    slots = std::max(slots, static_cast<std::int64_t>(of.prompt.size() + of.tokens.size()));
  models::DecodeShape shape{1, slots};
  for (const RecordedPrompt& of : recorded.prompts)
    shape.most_new_tokens = std::max(shape.most_new_tokens, static_cast<std::int64_t>(of.prompt.size()));
  Programs programs{make_program(request, shape, target), {}};
  for (const RecordedPrompt& of : recorded.prompts) {
    shape.new_tokens = static_cast<std::int64_t>(of.prompt.size());
    programs.prompts.push_back(make_program(request, shape, target));
  }
  return programs;
}

Held run(const Programs& programs, const train::RecordedModel& recorded, const models::ModelRequest& request,
         backend::Workers& workers) {
  Decoder decoder(workers);
  Ready step = decoder.prepare(programs.step);
  read_weights(decoder, programs.step.graph, request, recorded.path, workers);
  Held held(recorded.logits_tolerance);
  for (std::size_t i = 0; i < recorded.prompts.size(); ++i) {
    Ready prefill = decoder.prepare(programs.prompts[i]);
    follow(recorded.prompts[i], decoder, prefill, step, request.rows, held);
  }
  return held;
}

}  // namespace

train::Findings verify_tokens(const train::RecordedModel& recorded, const models::ModelRequest& request,
                              const mesh::Topology& target, backend::Workers& workers) {
  if (recorded.prompts.empty()) return {};
  std::optional<Programs> programs;
  try {
    programs = make_programs(recorded, request, target);
  } catch (const Error& error) {
    if (error.parts().fault != Fault::bad_request) throw;
    return {{},
            {{"tokens that prompts are gone on with",
              "this layout does not decode: " + error.parts().where + ": " + error.parts().what}}};
  }
  const Held held = run(*programs, recorded, request, workers);
  return {{held.tokens.verdict(), held.logits.verdict()}, {}};
}

}  // namespace moesh::decode
