// The products whose speed matters here, and ours, through the kernels that the engine runs.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/scratch.h"
#include "gemm_contestants.h"

namespace moesh::bench {

enum class Layout { plain, b_turned, a_turned };  // a b, a b^T, a^T b

// `groups` empty: `batch` products of rows x depth and depth x columns. Else each group has so many rows, or with
// a_turned so much depth, and weights of its own: the experts' products.
struct Case {
  std::string title;
  Layout layout;
  std::int64_t batch;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t depth;
  std::vector<std::int32_t> groups = {};

  bool is_grouped() const { return !groups.empty(); }

  double operations() const;
  std::string shape() const;
};

std::vector<Case> cases();

// A case's operands and result, and what multiplies them.
class Trial {
 public:
  Trial(const Case& of, bool bfloat16);

  const Problem& problem() const { return problem_; }
  Job ours(int threads) const;
  std::vector<float> result() const;
  void clear_result();

 private:
  void fill(void* data, std::int64_t count, unsigned seed) const;
  void lay_batch();
  void lay_groups();

  Case of_;
  Problem problem_;
  backend::cpu::Scratch memory_[3];
  backend::View a_, b_, c_;
};

}  // namespace moesh::bench
