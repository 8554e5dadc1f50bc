// Kernels one by one, on sizes that training and decoding have.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/workers.h"
#include "graph/facts.h"

namespace moesh::measure {

struct TypedKernel {
  std::string name;  // "grouped_matmul: experts"
  DType dtype = DType::float32;
};

// Those that have a text in their name, in float32 and in bfloat16, or once where their types are their own.
std::vector<TypedKernel> kernels_with(std::string_view text);

struct KernelTime {
  TypedKernel kernel;
  std::string sizes;   // of its operands: "4096x512, 8x512x1024"
  double seconds = 0;  // the median of some runs
  graph::Work work;
};

KernelTime time_of(const TypedKernel& kernel, backend::Workers& workers);

}  // namespace moesh::measure
