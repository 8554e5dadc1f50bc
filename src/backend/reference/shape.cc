// Ops that move elements, and sums over dims. Elements are copied as bytes, whatever their type.
#include <cstring>
#include <vector>

#include <fmt/core.h>

#include "backend/cache_slots.h"
#include "backend/element.h"
#include "backend/reference/kernels.h"
#include "base/error.h"

namespace moesh::backend::reference {
namespace {

using Strides = std::vector<std::int64_t>;

Strides strides_of(const Shape& shape) {
  Strides strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// Calls visit(flat index in `shape`, sum of coordinates times strides) for every element of a shape.
template <typename Visit>
void for_each_offset(const Shape& shape, const Strides& strides, Visit visit) {
  const std::int64_t count = elements(shape);
  Strides at(shape.size(), 0);
  std::int64_t offset = 0;
  for (std::int64_t flat = 0; flat < count; ++flat) {
    visit(flat, offset);
    for (std::size_t dim = shape.size(); dim-- > 0;) {
      offset += strides[dim];
      if (++at[dim] < shape[dim]) break;
      offset -= strides[dim] * shape[dim];
      at[dim] = 0;
    }
  }
}

void copy_element(const View& to, std::int64_t i, const View& from, std::int64_t k) {
  const auto size = static_cast<std::size_t>(size_of(to.dtype));
  std::memcpy(to.raw() + i * size_of(to.dtype), from.raw() + k * size_of(to.dtype), size);
}

void broadcast(const KernelCall& call) {
  const auto& dims = std::get<graph::BroadcastOf>(call.attributes).dims;
  const View& to = call.results[0];
  const Strides from = strides_of(call.operands[0].shape);
  Strides strides(to.shape.size(), 0);
  for (std::size_t i = 0; i < dims.size(); ++i) strides[static_cast<std::size_t>(dims[i])] = from[i];
  for_each_offset(to.shape, strides, [&](std::int64_t i, std::int64_t k) { copy_element(to, i, call.operands[0], k); });
}

void reduce(const KernelCall& call) {
  const auto& dims = std::get<graph::ReduceOf>(call.attributes).dims;
  const View& from = call.operands[0];
  const Strides kept = strides_of(call.results[0].shape);
  Strides strides(from.shape.size(), 0);
  std::size_t next = 0;
  for (std::size_t dim = 0; dim < from.shape.size(); ++dim) {
    const bool summed = std::find(dims.begin(), dims.end(), static_cast<int>(dim)) != dims.end();
    if (!summed) strides[dim] = kept[next++];
  }
  for_floating(from.dtype, [&]<typename T>() {
    std::vector<double> sums(static_cast<std::size_t>(call.results[0].count()), 0);
    for_each_offset(from.shape, strides, [&](std::int64_t i, std::int64_t k) {
      sums[static_cast<std::size_t>(k)] += static_cast<double>(load(from.as<T>()[i]));
    });
    for (std::size_t k = 0; k < sums.size(); ++k) call.results[0].as<T>()[k] = store<T>(sums[k]);
  });
}

void transpose(const KernelCall& call) {
  const auto& order = std::get<graph::TransposeOf>(call.attributes).order;
  const Strides from = strides_of(call.operands[0].shape);
  Strides strides;
  for (const int dim : order) strides.push_back(from[static_cast<std::size_t>(dim)]);
  for_each_offset(call.results[0].shape, strides, [&](std::int64_t i, std::int64_t k) {
    copy_element(call.results[0], i, call.operands[0], k);
  });
}

// A tensor as [outer, dim, inner bytes].
struct Along {
  std::int64_t outer = 1, size = 1, inner = 1;

  Along(const View& view, int dim) {
    for (int i = 0; i < static_cast<int>(view.shape.size()); ++i) {
      const std::int64_t n = view.shape[static_cast<std::size_t>(i)];
      (i < dim ? outer : i == dim ? size : inner) *= n;
    }
    inner *= size_of(view.dtype);
  }
};

// Copies `size` steps along a dim, from step `from_begin` of one tensor to step `to_begin` of another.
void copy_range(const View& to, std::int64_t to_begin, const View& from, std::int64_t from_begin, std::int64_t size, int dim) {
  const Along a(to, dim);
  const Along b(from, dim);
  for (std::int64_t row = 0; row < a.outer; ++row) {
    std::memcpy(to.raw() + (row * a.size + to_begin) * a.inner,
                from.raw() + (row * b.size + from_begin) * b.inner, static_cast<std::size_t>(size * a.inner));
  }
}

void slice(const KernelCall& call) {
  const auto& of = std::get<graph::SliceOf>(call.attributes);
  copy_range(call.results[0], 0, call.operands[0], of.begin, of.size, of.dim);
}

void concat(const KernelCall& call) {
  const int dim = std::get<graph::ConcatOf>(call.attributes).dim;
  std::int64_t begin = 0;
  for (const View& part : call.operands) {
    const std::int64_t size = part.shape[static_cast<std::size_t>(dim)];
    copy_range(call.results[0], begin, part, 0, size, dim);
    begin += size;
  }
}

void pad(const KernelCall& call) {
  const auto& of = std::get<graph::PadOf>(call.attributes);
  const View& to = call.results[0];
  std::memset(to.data, 0, static_cast<std::size_t>(to.count() * size_of(to.dtype)));
  copy_range(to, of.before, call.operands[0], 0, call.operands[0].shape[static_cast<std::size_t>(of.dim)], of.dim);
}

void cache_write(const KernelCall& call) {
  const View& cache = call.operands[0];
  const View& to = call.results[0];
  if (to.data != cache.data) std::memcpy(to.data, cache.data, static_cast<std::size_t>(cache.count() * size_of(cache.dtype)));
  std::int64_t width = 1;
  for (std::size_t dim = 2; dim < cache.shape.size(); ++dim) width *= cache.shape[dim];
  each_written(call, [&](const WrittenRows& of) {
    for (std::int64_t token = 0; token < of.rows.size(0) * of.rows.size(1); ++token) {
      const std::int64_t slot = of.slot_of(token, cache.size(1));
      for (std::int64_t i = 0; i < width && slot != graph::kNoSlot; ++i) copy_element(to, slot * width + i, of.rows, token * width + i);
    }
  });
}

}  // namespace

Kernel find_shape(graph::Op op) {
  switch (op) {
    case graph::Op::broadcast: return broadcast;
    case graph::Op::reduce: return reduce;
    case graph::Op::transpose: return transpose;
    case graph::Op::slice: return slice;
    case graph::Op::concat: return concat;
    case graph::Op::pad: return pad;
    case graph::Op::cache_write: return cache_write;
    default: return nullptr;
  }
}

}  // namespace moesh::backend::reference
