// Matrix products as the benchmark hands them to ours and to the libraries.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace moesh::bench {

// Where element (row, column) lies, in elements from `data`.
struct Operand {
  const void* data;
  std::int64_t row_stride;
  std::int64_t column_stride;
};

// c = a b; c is dense, row-major.
struct Product {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t depth;
  Operand a;
  Operand b;
  void* c;
};

// Products that are asked for in one go. All are of one type, operands and results.
struct Problem {
  bool bfloat16;
  std::vector<Product> products;
};

using Job = std::function<void()>;

struct Contest {
  Job job = {};   // multiplies; empty: not a problem of this kind
  Job give = {};  // brings the result to c, where the job has it elsewhere; not timed
};

// A library, as one of its kind would use it: what can be prepared once for a shape is not in the job.
struct Library {
  std::string name;
  std::string version;
  std::function<Contest(const Problem& problem, int threads)> prepare;
};

// Nothing where the build lacks it.
std::optional<Library> onednn();
std::optional<Library> onednn_padded();  // groups of uneven sizes as one batch of the largest; laying them out is not timed
std::optional<Library> openblas();

}  // namespace moesh::bench
