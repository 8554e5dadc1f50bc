// Matrix products by oneDNN's matmul. Products of equal shapes at even distances are one batch; others are one primitive each.
#include <algorithm>
#include <cstring>
#include <memory>

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

Contest prepare(const Problem& problem, int threads) {
  omp_set_num_threads(threads);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  std::vector<Prepared> all;
  if (are_even(problem)) {
    all.push_back(prepare_batch(engine, problem, 0, problem.products.size()));
  } else {
    for (std::size_t i = 0; i < problem.products.size(); ++i) all.push_back(prepare_batch(engine, problem, i, 1));
  }
  return {[all, stream = dnnl::stream(engine), threads]() mutable {
    omp_set_num_threads(threads);
    for (Prepared& one : all) {
      one.primitive.execute(stream, {{DNNL_ARG_SRC, one.a}, {DNNL_ARG_WEIGHTS, one.b}, {DNNL_ARG_DST, one.c}});
    }
    stream.wait();
  }};
}

// A batch of matrices that are padded with zeros to the size of the largest.
class Padded {
 public:
  Padded(std::int64_t count, std::int64_t rows, std::int64_t columns, std::int64_t element)
      : rows_(rows), columns_(columns), element_(element), bytes_(static_cast<std::size_t>(count * rows * columns * element)) {}

  // The address of element (row, column) of matrix `i`, which is stored row-major or, if transposed (`turned`), column-major.
  std::byte* at(std::int64_t i, std::int64_t row, std::int64_t column, bool turned) {
    const std::int64_t place = turned ? column * rows_ + row : row * columns_ + column;
    return bytes_.data() + (i * rows_ * columns_ + place) * element_;
  }

  void fill(std::int64_t i, const Operand& from, std::int64_t rows, std::int64_t columns) {
    const bool turned = from.column_stride != 1;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const auto* const element = static_cast<const std::byte*>(from.data) + (r * from.row_stride + c * from.column_stride) * element_;
        std::memcpy(at(i, r, c, turned), element, static_cast<std::size_t>(element_));
      }
    }
  }

 private:
  std::int64_t rows_, columns_, element_;
  std::vector<std::byte> bytes_;
};

Contest prepare_padded(const Problem& problem, int threads) {
  if (problem.products.size() < 2 || are_even(problem)) return {};
  const auto count = static_cast<std::int64_t>(problem.products.size()), element = std::int64_t{problem.bfloat16 ? 2 : 4};
  std::int64_t rows = 0, depth = 0;
  for (const Product& one : problem.products) {
    rows = std::max(rows, one.rows);
    depth = std::max(depth, one.depth);
  }
  const std::int64_t columns = problem.products[0].columns;
  const auto a = std::make_shared<Padded>(count, rows, depth, element), b = std::make_shared<Padded>(count, depth, columns, element);
  const auto c = std::make_shared<Padded>(count, rows, columns, element);
  Problem padded{problem.bfloat16, {}};
  for (std::int64_t i = 0; i < count; ++i) {
    const Product& one = problem.products[static_cast<std::size_t>(i)];
    const bool a_transposed = one.a.column_stride != 1, b_transposed = one.b.column_stride != 1;
    a->fill(i, one.a, one.rows, one.depth);
    b->fill(i, one.b, one.depth, columns);
    padded.products.push_back({rows,
                               columns,
                               depth,
                               {a->at(i, 0, 0, false), a_transposed ? 1 : depth, a_transposed ? rows : 1},
                               {b->at(i, 0, 0, false), b_transposed ? 1 : columns, b_transposed ? depth : 1},
                               c->at(i, 0, 0, false)});
  }
  const Job give = [=] {
    for (std::int64_t i = 0; i < count; ++i) {
      const Product& one = problem.products[static_cast<std::size_t>(i)];
      std::memcpy(one.c, c->at(i, 0, 0, false), static_cast<std::size_t>(one.rows * columns * element));
    }
  };
  return {[a, b, c, job = prepare(padded, threads).job] { job(); }, give};
}

std::string version() {
  const dnnl_version_t* const of = dnnl_version();
  return fmt::format("{}.{}.{}", of->major, of->minor, of->patch);
}

}  // namespace

std::optional<Library> onednn() { return Library{"oneDNN", version(), prepare}; }
std::optional<Library> onednn_padded() { return Library{"padded", "by oneDNN", prepare_padded}; }

}  // namespace moesh::bench
