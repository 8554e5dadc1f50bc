// Runs programs on new tokens, with one set of parameters and caches.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "decode/program.h"
#include "run/program.h"

namespace moesh::decode {

// A few tokens of each row, [B, S], row by row. Segment 0 is padding: it is kept where its position is, and nobody sees it.
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

  // Programs differ in the number of new tokens only: they share parameters and caches, and the memory of `beside` where it is
  // large enough.
  Ready prepare(const Program& program, const Ready* beside = nullptr);

  void set_parameter(const std::string& path, const run::Array& whole);
  // Where a parameter lies, to be written to; it counts as given then.
  std::vector<store::Part> parameter_parts(const std::string& path);
  // All rows start anew.
  void forget();

  // The logits of the new tokens, [B, S, V].
  run::Array run(Ready& program, const NewTokens& tokens);
  // They are kept, and nothing is asked about them.
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
  bool is_lost_ = false;  // what the caches hold, after a run that failed
};

}  // namespace moesh::decode
