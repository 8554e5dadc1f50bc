// The matrix products that the benchmark times, and moesh's own way to compute them: the kernels that the engine runs.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/scratch.h"
#include "gemm_contestants.h"

namespace moesh::bench {

enum class Layout { plain, b_transposed, a_transposed };  // a b, a b^T, a^T b

// Without `groups`: `batch` products of a rows x depth and a depth x columns matrix. With `groups`: the grouped GEMM of experts, where
// each group has its own number of rows (its own depth for a_transposed) and its own weights.
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

// The operands and the result of a case, and the job that computes it with the engine's kernels.
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
