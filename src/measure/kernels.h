// Measures single kernels, on sizes that occur in training and decoding.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/workers.h"
#include "graph/facts.h"
#include "measure/library.h"

namespace moesh::measure {

struct TypedKernel {
  std::string name;  // "grouped_matmul: experts"
  DType dtype = DType::float32;
};

// The kernels whose names contain a text, in float32 and in bfloat16, or once if their types are fixed.
std::vector<TypedKernel> kernels_with(std::string_view text);

struct KernelTime {
  TypedKernel kernel;
  std::string sizes;   // sizes of its operands: "4096x512, 8x512x1024"
  double seconds = 0;  // the median of several runs
  graph::Work work;
  std::vector<double> by_libraries;  // what each of them took for the same; empty if they have no such kernel
};

// The kernel takes turns with the libraries.
KernelTime time_of(const TypedKernel& kernel, backend::Workers& workers, const std::vector<Library>& libraries = {});

}  // namespace moesh::measure
