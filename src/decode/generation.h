// Texts that are gone on with, several at a time: each has a row of the decoder, and when it ends the next one takes the row.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "decode/decoder.h"
#include "decode/sampling.h"

namespace moesh::decode {

struct Prompt {
  std::vector<std::int32_t> ids;        // at least one
  Sampling sampling;
  std::int64_t most_tokens = 0;         // that follow it
  std::vector<std::int32_t> stop_ids;   // each of which ends the text
  std::int64_t text = 0;                // tells it apart from others that go on
  std::int64_t number = 0;              // what is drawn goes by it, not by the row
};

enum class Ended { not_yet, by_stop, by_length };

// Why a text ended, in the word that answers have for it; null while it goes on.
const char* finish_reason(Ended ended);

// What became of a text with its next token.
struct Continued {
  std::int64_t text;
  std::int32_t token;
  Ended ended;
};

class Generator {
 public:
  // `request` says how many rows there are, `slots` how long a text may become with its prompt.
  Generator(const models::ModelRequest& request, const mesh::Topology& target, std::int64_t slots, backend::Workers& workers);

  // Whose parameters are to be set before the first step.
  Decoder& decoder() { return decoder_; }
  const graph::Graph& graph() const { return program_.graph; }  // names them

  // What a step takes, as planned: weights, keys and values, and what it works in.
  run::Taken planned_memory() const { return run::bytes_of(step_.run.plan()); }

  // Refuses a prompt that leaves no room for a token.
  void add(Prompt prompt);
  bool is_idle() const;  // no text is left

  // Each text that has a row goes on by a token: by the next one of its prompt, or by a new one. `see` may end a text by its answer:
  // true where it is to go on.
  void step(const std::function<bool(const Continued&)>& see);
  // A text is given up, wherever it is.
  void drop(std::int64_t text);

 private:
  struct Row {
    Prompt prompt;
    std::vector<std::int32_t> ids;  // with what follows; none: the row is free
    std::int64_t kept = 0;          // of them in the cache
    std::int32_t segment = 0;       // tells its texts apart

    bool is_free() const { return ids.empty(); }
    bool is_kept() const { return !is_free() && kept == static_cast<std::int64_t>(ids.size()); }
    std::int64_t left() const { return is_free() ? 0 : static_cast<std::int64_t>(ids.size()) - kept - 1; }  // of the prompt, but its last
    void free() {
      ids.clear();
      kept = 0;
    }
  };
  void take_rows();
  void keep_prompts();
  bool pays(std::int64_t length) const;
  Ready& prefill(std::int64_t length);
  NewTokens next_tokens(std::int64_t length, std::int64_t left);
  std::vector<std::int32_t> drawn(const run::Array& logits) const;
  Ended end_of(const Row& row, std::int32_t token) const;

  models::ModelRequest request_;
  const mesh::Topology& target_;
  std::int64_t slots_;
  backend::Workers& workers_;
  Decoder decoder_;
  Program program_;  // of a token
  Ready step_;
  std::map<std::int64_t, Ready> prefills_;  // by their lengths
  std::deque<Prompt> waiting_;
  std::vector<Row> rows_;
};

}  // namespace moesh::decode
