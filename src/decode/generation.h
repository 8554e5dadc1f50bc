// Generates several texts at a time: each has a row of the decoder, and when a text ends, the next one takes its row.
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
  std::vector<std::int32_t> ids;        // at least one token
  Sampling sampling;
  std::int64_t most_tokens = 0;         // largest number of tokens that may follow
  std::vector<std::int32_t> stop_ids;   // tokens each of which ends the text
  std::int64_t text = 0;                // identifies the text among those being generated
  std::int64_t number = 0;              // the random draws depend on it, not on the row
};

enum class Ended { not_yet, by_stop, by_length };

// Why a text ended, as the finish_reason of OpenAI's interface; null if it has not ended.
const char* finish_reason(Ended ended);

// The next token of a text, and whether the text ends with it.
struct Continued {
  std::int64_t text;
  std::int32_t token;
  Ended ended;
};

class Generator {
 public:
  // `request` sets the number of rows; `slots` is the largest length of a prompt together with its text.
  Generator(const models::ModelRequest& request, const mesh::Topology& target, std::int64_t slots, backend::Workers& workers);

  // The caller must set the decoder's parameters before the first step.
  Decoder& decoder() { return decoder_; }
  const graph::Graph& graph() const { return program_.graph; }  // names the parameters

  // The planned memory of a step: weights and KV cache, and scratch memory.
  run::Taken planned_memory() const { return run::bytes_of(step_.run.plan()); }

  // Refuses a prompt that leaves no room for a token.
  void add(Prompt prompt);
  bool is_idle() const;  // no text is left

  // Advances each text that has a row by one token: the next one of its prompt, or a new one. `see` is called for each new token; it
  // returns true to continue the text and false to end it.
  void step(const std::function<bool(const Continued&)>& see);
  // Abandons a text, whether it waits or has a row.
  void drop(std::int64_t text);

 private:
  struct Row {
    Prompt prompt;
    std::vector<std::int32_t> ids;  // the prompt and the new tokens; empty if the row is free
    std::int64_t kept = 0;          // how many of `ids` are in the cache
    std::int32_t segment = 0;       // distinguishes the texts that use the row one after the other

    bool is_free() const { return ids.empty(); }
    bool is_kept() const { return !is_free() && kept == static_cast<std::int64_t>(ids.size()); }
    // Tokens of the prompt that are not in the cache, except its last.
    std::int64_t left() const { return is_free() ? 0 : static_cast<std::int64_t>(ids.size()) - kept - 1; }
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
  Program program_;  // for one new token per row
  Ready step_;
  std::map<std::int64_t, Ready> prefills_;  // by the number of new tokens per row
  std::deque<Prompt> waiting_;
  std::vector<Row> rows_;
};

}  // namespace moesh::decode
