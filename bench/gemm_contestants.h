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

using Job = std::function<void()>;  // multiplies; empty: not a problem of this kind

// A library, as one of its kind would use it: what can be prepared once for a shape is not in the job.
struct Library {
  std::string name;
  std::string version;
  std::function<Job(const Problem& problem, int threads)> prepare;
};

// Nothing where the build lacks it.
std::optional<Library> onednn();
std::optional<Library> openblas();

}  // namespace moesh::bench
