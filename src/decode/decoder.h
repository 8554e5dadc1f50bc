// Runs decoding programs on new tokens, all with the same parameters and KV caches.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "decode/program.h"
#include "run/program.h"

namespace moesh::decode {

// New tokens of each row, [B, S], row-major. Segment 0 is padding: it is written to the cache at its position, but no token attends to it.
struct NewTokens {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> segments;
};

// A program that is ready to run on a decoder's parameters and caches.
struct Ready {
  run::Program run;
  std::int64_t vocabulary = 0;
  std::int64_t row_length = 1;
  std::int64_t draw_seed = 0;
};

class Decoder {
 public:
  explicit Decoder(backend::Workers& workers, const backend::Backend& backend = backend::cpu_backend())
      : workers_(workers), backend_(backend) {}

  // Prepares a program to run. Programs may differ only in the number of new tokens: they share parameters and caches, and reuse the
  // scratch memory of `beside` if it is large enough.
  Ready prepare(const Program& program, const Ready* beside = nullptr);

  void set_parameter(const std::string& path, const run::Array& whole);
  // The memory of a parameter, for the caller to fill. The parameter counts as set from then on.
  std::vector<store::Part> parameter_parts(const std::string& path);
  // Clears the caches, so that all rows start from their first token.
  void forget();

  // The logits of the new tokens, [B, S, V].
  run::Array run(Ready& program, const NewTokens& tokens);
  // Runs the new tokens only to write them to the caches, and does not return logits.
  void keep(Ready& program, const NewTokens& tokens, const run::Observers& observers = {});

  run::Pool& pool() { return *pool_; }

 private:
  void check(const Ready& program, const NewTokens& tokens) const;

  backend::Workers& workers_;
  const backend::Backend& backend_;
  std::shared_ptr<run::Pool> pool_ = run::Pool::create();
  std::shared_ptr<run::State> state_ = std::make_shared<run::State>();
  mesh::Mesh mesh_{{}};
  std::set<std::string> parameters_, without_value_, caches_;
  bool is_lost_ = false;  // whether a failed run has left the caches with undefined contents
};

}  // namespace moesh::decode
