// Runs programs on new tokens, with one set of parameters and caches.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "decode/program.h"
#include "run/executor.h"

namespace moesh::decode {

// A few tokens of each row, [B, S], row by row. Segment 0 is padding: it is kept where its position is, and nobody sees it.
struct NewTokens {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> segments;
};

class Decoder {
 public:
  // `program`: any of those that will run; they differ in the number of new tokens only.
  Decoder(const Program& program, run::Workers& workers);

  void set_parameter(const std::string& path, const run::Array& whole);
  // All rows start anew.
  void forget();

  // The logits of the new tokens, [B, S, V].
  run::Array run(const Program& program, const NewTokens& tokens);

  run::Pool& pool() { return executor_.pool(); }

 private:
  // What programs share: parameters and caches, and how they lie.
  struct Root {
    Shape shape;
    DType dtype;
    sharding::Spec spec;
  };

  run::Placed place_tokens(const Program& program, const graph::Value& value, const std::string& name, const NewTokens& tokens);
  run::Placed take_root(const graph::Value& value, const std::string& path, bool is_parameter);

  run::Workers& workers_;
  run::Executor executor_;
  std::map<std::string, Root> parameter_roots_, state_roots_;
  std::map<std::string, run::Placed> parameters_, states_;
};

}  // namespace moesh::decode
