// Products by oneDNN's matmul. Equal products at even distances are one batch; others are one primitive each.
#include <fmt/core.h>
#include <oneapi/dnnl/dnnl.hpp>
#include <omp.h>

#include "gemm_contestants.h"

namespace moesh::bench {
namespace {

using Dims = dnnl::memory::dims;
using Type = dnnl::memory::data_type;

std::int64_t distance(const void* from, const void* to, bool bfloat16) {
  return (static_cast<const char*>(to) - static_cast<const char*>(from)) / (bfloat16 ? 2 : 4);
}

bool are_even(const Problem& of) {
  for (std::size_t i = 1; i < of.products.size(); ++i) {
    const Product &first = of.products[0], &second = of.products[1], &last = of.products[i - 1], &next = of.products[i];
    const bool alike = next.rows == first.rows && next.columns == first.columns && next.depth == first.depth;
    const auto even = [&](const void* a, const void* b, const void* c, const void* d) {
      return distance(a, b, of.bfloat16) == distance(c, d, of.bfloat16);
    };
    if (!alike || !even(first.a.data, second.a.data, last.a.data, next.a.data) ||
        !even(first.b.data, second.b.data, last.b.data, next.b.data) || !even(first.c, second.c, last.c, next.c)) {
      return false;
    }
  }
  return true;
}

struct Prepared {
  dnnl::matmul primitive;
  dnnl::memory a, b, c;
};

dnnl::memory memory_of(const dnnl::engine& engine, const void* data, Dims dims, Dims strides, Type type) {
  return {dnnl::memory::desc(dims, type, strides), engine, const_cast<void*>(data)};
}

Prepared prepare_batch(const dnnl::engine& engine, const Problem& problem, std::size_t first, std::size_t count) {
  const Product& one = problem.products[first];
  const Product& next = problem.products[count > 1 ? first + 1 : first];
  const Type type = problem.bfloat16 ? Type::bf16 : Type::f32;
  const auto batch = static_cast<std::int64_t>(count);
  const auto step = [&](const void* from, const void* to, std::int64_t elements) {
    return count > 1 ? distance(from, to, problem.bfloat16) : elements;
  };
  dnnl::memory a =
      memory_of(engine, one.a.data, {batch, one.rows, one.depth},
                {step(one.a.data, next.a.data, one.rows * one.depth), one.a.row_stride, one.a.column_stride}, type);
  dnnl::memory b =
      memory_of(engine, one.b.data, {batch, one.depth, one.columns},
                {step(one.b.data, next.b.data, one.depth * one.columns), one.b.row_stride, one.b.column_stride}, type);
  dnnl::memory c = memory_of(engine, one.c, {batch, one.rows, one.columns},
                             {step(one.c, next.c, one.rows * one.columns), one.columns, 1}, type);
  const dnnl::matmul::desc desc(a.get_desc(), b.get_desc(), c.get_desc());
  return {dnnl::matmul(dnnl::matmul::primitive_desc(desc, engine)), a, b, c};
}

Job prepare(const Problem& problem, int threads) {
  omp_set_num_threads(threads);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  std::vector<Prepared> all;
  if (are_even(problem)) {
    all.push_back(prepare_batch(engine, problem, 0, problem.products.size()));
  } else {
    for (std::size_t i = 0; i < problem.products.size(); ++i) all.push_back(prepare_batch(engine, problem, i, 1));
  }
  return [all, stream = dnnl::stream(engine), threads]() mutable {
    omp_set_num_threads(threads);
    for (Prepared& one : all) {
      one.primitive.execute(stream, {{DNNL_ARG_SRC, one.a}, {DNNL_ARG_WEIGHTS, one.b}, {DNNL_ARG_DST, one.c}});
    }
    stream.wait();
  };
}

}  // namespace

std::optional<Library> onednn() {
  const dnnl_version_t* version = dnnl_version();
  return Library{"oneDNN", fmt::format("{}.{}.{}", version->major, version->minor, version->patch), prepare};
}

}  // namespace moesh::bench
