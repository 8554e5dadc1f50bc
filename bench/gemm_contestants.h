// Matrix products in the form in which the benchmark gives them to moesh's kernels and to the libraries.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace moesh::bench {

// A matrix whose element (row, column) is at `data`, plus row * row_stride + column * column_stride elements.
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

// Products that are computed in one call. All operands and results have the same type.
struct Problem {
  bool bfloat16;
  std::vector<Product> products;
};

using Job = std::function<void()>;

struct Contest {
  Job job = {};   // computes the products; empty if the library does not take this kind of problem
  Job give = {};  // copies the result to c if the job leaves it elsewhere; not timed
};

// A library, called as its users would: what can be prepared once per shape is not part of the job.
struct Library {
  std::string name;
  std::string version;
  std::function<Contest(const Problem& problem, int threads)> prepare;
};

// Empty if the build does not have the library.
std::optional<Library> onednn();
std::optional<Library> onednn_padded();  // groups of uneven sizes, padded to one batch of the largest; the padding is not timed
std::optional<Library> openblas();

}  // namespace moesh::bench
