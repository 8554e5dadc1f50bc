// Ops that move elements, and sums over dims.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <vector>

#include "backend/cache_slots.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/row_loop.h"
#include "backend/cpu/simd.h"
#include "backend/scratch_list.h"
#include "base/rounding.h"

namespace moesh::backend::cpu {
namespace {


// A dim of a dense result, and its stride in the operand; 0 if the same element is repeated.
struct Dim {
  std::int64_t size;
  std::int64_t stride;
};
using Dims = ScratchList<Dim>;

std::size_t index(int dim) { return static_cast<std::size_t>(dim); }

ScratchList<std::int64_t> strides_of(const Shape& shape) {
  ScratchList<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    strides[dim] = stride;
    stride *= shape[dim];
  }
  return strides;
}

// Drops dims of size 1, and merges neighbouring dims that lie in memory like one.
Dims merged(const Dims& dims) {
  Dims kept;
  for (const Dim& dim : dims) {
    if (dim.size == 1) continue;
    if (!kept.empty() && kept.back().stride == dim.size * dim.stride) {
      kept.back() = {kept.back().size * dim.size, dim.stride};
    } else {
      kept.push_back(dim);
    }
  }
  if (kept.empty()) kept.push_back({1, 1});
  return kept;
}

std::int64_t count_of(const Dims& dims) {
  std::int64_t count = 1;
  for (const Dim& dim : dims) count *= dim.size;
  return count;
}

// The offset of the index-th element over these dims.
std::int64_t offset_of(const Dims& dims, std::int64_t index) {
  std::int64_t offset = 0;
  for (std::size_t dim = dims.size(); dim-- > 0;) {
    offset += index % dims[dim].size * dims[dim].stride;
    index /= dims[dim].size;
  }
  return offset;
}

template <typename T>
void copy_run(T* __restrict to, const T* __restrict from, std::int64_t stride, std::int64_t count) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
  } else if (stride == 0) {
    std::fill_n(to, count, *from);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
  }
}

template <typename T>
void copy_runs(Workers& workers, T* to, const T* from, const Dims& dims) {
  const Dim inner = dims.back();
  const Dims outer(dims.begin(), dims.end() - 1);
  workers.parallel(count_of(dims), kGrain, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t within = begin % inner.size;
      const std::int64_t count = std::min(end - begin, inner.size - within);
      const T* run = from + offset_of(outer, begin / inner.size) + within * inner.stride;
      copy_run(to + begin, run, inner.stride, count);
      begin += count;
    }
  });
}

// For an operand whose innermost dim is not that of the result: copies in square tiles, so that both are accessed by cache lines.
template <typename T>
void copy_tiles(Workers& workers, T* to, const T* from, const Dims& dims, std::size_t across) {
  constexpr std::int64_t kTile = 32;
  const Dim inner = dims.back();
  const Dim other = dims[across];
  std::int64_t to_stride = 1;
  for (std::size_t dim = across + 1; dim < dims.size(); ++dim) to_stride *= dims[dim].size;
  Dims outer_from;  // the other dims, with their strides in the operand and in the result
  Dims outer_to;
  std::int64_t stride = count_of(dims);
  for (std::size_t dim = 0; dim + 1 < dims.size(); ++dim) {
    stride /= dims[dim].size;
    if (dim == across) continue;
    outer_from.push_back(dims[dim]);
    outer_to.push_back({dims[dim].size, stride});
  }
  const std::int64_t bands = divide_up(other.size, kTile);
  workers.parallel(count_of(outer_from) * bands, 1 + kGrain / (kTile * inner.size), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const T* source = from + offset_of(outer_from, task / bands);
      T* result = to + offset_of(outer_to, task / bands);
      const std::int64_t first = task % bands * kTile;
      const std::int64_t last = std::min(first + kTile, other.size);
      for (std::int64_t j0 = 0; j0 < inner.size; j0 += kTile) {
        const std::int64_t j1 = std::min(j0 + kTile, inner.size);
        for (std::int64_t i = first; i < last; ++i) {
          for (std::int64_t j = j0; j < j1; ++j) result[i * to_stride + j] = source[i + j * inner.stride];
        }
      }
    }
  });
}

template <typename T>
void copy_typed(Workers& workers, void* to, const void* from, const Dims& dims) {
  const auto is_inner = [](const Dim& dim) { return dim.stride == 1; };
  const auto across = std::find_if(dims.begin(), dims.end(), is_inner);
  T* result = static_cast<T*>(to);
  const T* source = static_cast<const T*>(from);
  if (dims.back().stride <= 1 || across == dims.end()) return copy_runs(workers, result, source, dims);
  copy_tiles(workers, result, source, dims, static_cast<std::size_t>(across - dims.begin()));
}

void copy(const KernelCall& call, const Dims& dims, std::int64_t first = 0) {
  const View& from = call.operands[0];
  const Dims simple = merged(dims);
  if (count_of(simple) == 0) return;
  const auto* source = from.raw() + first * size_of(from.dtype);
  void* to = call.results[0].data;
  switch (size_of(from.dtype)) {
    case 1: return copy_typed<std::uint8_t>(call.workers, to, source, simple);
    case 2: return copy_typed<std::uint16_t>(call.workers, to, source, simple);
    case 4: return copy_typed<std::uint32_t>(call.workers, to, source, simple);
    case 8: return copy_typed<std::uint64_t>(call.workers, to, source, simple);
    default: assert(false && "an element of 1, 2, 4 or 8 bytes");
  }
}

// Rows of bytes that are copied from one buffer to another, each at its own pitch.
struct Band {
  std::byte* to;
  std::int64_t to_pitch;
  const std::byte* from;
  std::int64_t from_pitch;
};

void copy_band(Workers& workers, const Band& band, std::int64_t rows, std::int64_t bytes) {
  if (bytes == 0) return;
  constexpr std::int64_t kPiece = 1 << 18;
  const std::int64_t pieces = divide_up(bytes, kPiece);
  workers.parallel(rows * pieces, 1 + kPiece / bytes, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t at = i % pieces * kPiece;
      const auto count = static_cast<std::size_t>(std::min(kPiece, bytes - at));
      std::memcpy(band.to + i / pieces * band.to_pitch + at, band.from + i / pieces * band.from_pitch + at, count);
    }
  });
}

// A view as rows of bytes: the dims before `dim` number the rows, `dim` and the dims after it are a row.
struct Rows {
  std::int64_t count = 1;
  std::int64_t bytes = 1;
  std::int64_t bytes_of_one = 1;  // bytes of one index of `dim`
};

Rows rows_of(const View& view, int dim) {
  Rows rows;
  for (int i = 0; i < dim; ++i) rows.count *= view.shape[index(i)];
  rows.bytes_of_one = size_of(view.dtype);
  for (std::size_t i = index(dim) + 1; i < view.shape.size(); ++i) rows.bytes_of_one *= view.shape[i];
  rows.bytes = rows.bytes_of_one * view.shape[index(dim)];
  return rows;
}

// The dims of a sum: those that are kept and those that are summed over, each with its stride in the operand.
struct Sum {
  Dims kept;
  Dims gone;
  bool keeps_inner = false;  // whether the innermost dim is kept
};

Sum sum_of_dims(const Shape& shape, const std::vector<int>& reduced) {
  const ScratchList<std::int64_t> strides = strides_of(shape);
  Sum sum;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    const bool goes = std::find(reduced.begin(), reduced.end(), static_cast<int>(dim)) != reduced.end();
    (goes ? sum.gone : sum.kept).push_back({shape[dim], strides[dim]});
    if (shape[dim] > 1) sum.keeps_inner = !goes;
  }
  sum.kept = merged(sum.kept);
  sum.gone = merged(sum.gone);
  return sum;
}

// Elements that are summed in one go; the sums of such chunks are then added in their order. So the order of a sum depends only on the dims
// that are summed over.
constexpr std::int64_t kChunk = 4096;

// Where the sums of chunks go: the sum of a single chunk is the result; the sums of several are kept, [chunks, results], until they are
// combined.
template <typename T>
class Totals {
 public:
  Totals(T* y, std::int64_t chunks, std::int64_t results)
      : y_(y), chunks_(chunks), results_(results), partial_(chunks > 1 ? static_cast<std::size_t>(chunks * results) : 0) {}

  std::int64_t chunks() const { return chunks_; }
  std::int64_t results() const { return results_; }

  void put(std::int64_t chunk, std::int64_t result, double total) {
    if (chunks_ == 1) {
      y_[result] = store<T>(total);
    } else {
      partial_[static_cast<std::size_t>(chunk * results_ + result)] = total;
    }
  }

  void combine(Workers& workers) {
    if (chunks_ == 1) return;
    workers.parallel(results_, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const double* totals = partial_.data() + i;
        double total = totals[0];
        for (std::int64_t chunk = 1; chunk < chunks_; ++chunk) total += totals[chunk * results_];
        y_[i] = store<T>(total);
      }
    });
  }

 private:
  T* y_;
  std::int64_t chunks_;
  std::int64_t results_;
  ScratchList<double> partial_;
};

// The innermost dim is kept: rows are added to rows.
template <typename T>
void sum_rows(const KernelCall& call, const Sum& sum, const T* x, T* y) {
  constexpr std::int64_t kWidth = 256;
  const Isa isa = chosen_isa();
  const Dim inner = sum.kept.back();
  const Dims outer(sum.kept.begin(), sum.kept.end() - 1);
  const std::int64_t count = count_of(sum.gone);
  Totals<T> totals(y, divide_up(count, kChunk), count_of(sum.kept));
  const std::int64_t tiles = divide_up(inner.size, kWidth);
  const std::int64_t blocks = count_of(outer) * tiles;
  const std::int64_t grain = 1 + kGrain / (std::min(count, kChunk) * std::min(inner.size, kWidth));
  call.workers.parallel(blocks * totals.chunks(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t chunk = task / blocks;
      const std::int64_t row = task % blocks / tiles;
      const std::int64_t first = task % tiles * kWidth;
      const std::int64_t width = std::min(kWidth, inner.size - first);
      const T* source = x + offset_of(outer, row) + first;
      double total[kWidth] = {};
      for (std::int64_t i = chunk * kChunk; i < std::min(count, (chunk + 1) * kChunk); ++i) {
        const T* __restrict added = source + offset_of(sum.gone, i);
        vectorised(isa, [&]() MOESH_LOOP {
          for (std::int64_t j = 0; j < width; ++j) total[j] += load(added[j]);
        });
      }
      for (std::int64_t j = 0; j < width; ++j) totals.put(chunk, row * inner.size + first + j, total[j]);
    }
  });
  totals.combine(call.workers);
}

// The innermost dim is summed over: a result sums runs of at most a chunk each.
template <typename T>
void sum_runs(const KernelCall& call, const Sum& sum, const T* x, T* y) {
  const Isa isa = chosen_isa();
  const Dim inner = sum.gone.back();
  const Dims outer(sum.gone.begin(), sum.gone.end() - 1);
  const std::int64_t pieces = divide_up(inner.size, kChunk);
  const std::int64_t runs = count_of(outer) * pieces;
  const std::int64_t runs_a_chunk = std::max<std::int64_t>(1, kChunk / inner.size);
  Totals<T> totals(y, divide_up(runs, runs_a_chunk), count_of(sum.kept));
  const std::int64_t grain = 1 + kGrain / std::min(count_of(sum.gone), kChunk);
  call.workers.parallel(totals.results() * totals.chunks(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t result = task % totals.results();
      const std::int64_t chunk = task / totals.results();
      double total = 0;
      for (std::int64_t run = chunk * runs_a_chunk; run < std::min(runs, (chunk + 1) * runs_a_chunk); ++run) {
        const std::int64_t first = run % pieces * kChunk;
        const T* __restrict added = x + offset_of(sum.kept, result) + offset_of(outer, run / pieces) + first;
        const std::int64_t width = std::min(kChunk, inner.size - first);
        vectorised(isa, [&]() MOESH_LOOP {
          total += sum_of<double>(width, [&](std::int64_t i) MOESH_LOOP { return static_cast<double>(load(added[i])); });
        });
      }
      totals.put(chunk, result, total);
    }
  });
  totals.combine(call.workers);
}

template <typename T>
void reduce_of(const KernelCall& call) {
  const Sum sum = sum_of_dims(call.operands[0].shape, std::get<graph::ReduceOf>(call.attributes).dims);
  const T* x = call.operands[0].as<T>();
  T* y = call.results[0].as<T>();
  if (count_of(sum.gone) == 0) {
    std::fill_n(y, call.results[0].count(), store<T>(0.0));
  } else if (sum.keeps_inner) {
    sum_rows(call, sum, x, y);
  } else {
    sum_runs(call, sum, x, y);
  }
}

}  // namespace

void broadcast(const KernelCall& call) {
  const std::vector<int>& placed = std::get<graph::BroadcastOf>(call.attributes).dims;
  const ScratchList<std::int64_t> strides = strides_of(call.operands[0].shape);
  Dims dims;
  for (const std::int64_t size : call.results[0].shape) dims.push_back({size, 0});
  for (std::size_t i = 0; i < placed.size(); ++i) dims[index(placed[i])].stride = strides[i];
  copy(call, dims);
}

void reduce(const KernelCall& call) {
  if (call.results[0].count() == 0) return;
  for_floating(call.results[0].dtype, [&]<typename T>() { reduce_of<T>(call); });
}

void transpose(const KernelCall& call) {
  const ScratchList<std::int64_t> strides = strides_of(call.operands[0].shape);
  Dims dims;
  for (const int dim : std::get<graph::TransposeOf>(call.attributes).order) {
    dims.push_back({call.operands[0].shape[index(dim)], strides[index(dim)]});
  }
  copy(call, dims);
}

void slice(const KernelCall& call) {
  const graph::SliceOf& of = std::get<graph::SliceOf>(call.attributes);
  const Rows from = rows_of(call.operands[0], of.dim);
  const Rows to = rows_of(call.results[0], of.dim);
  const auto* source = call.operands[0].raw() + of.begin * from.bytes_of_one;
  copy_band(call.workers, {call.results[0].raw(), to.bytes, source, from.bytes}, to.count, to.bytes);
}

void concat(const KernelCall& call) {
  const int dim = std::get<graph::ConcatOf>(call.attributes).dim;
  const Rows to = rows_of(call.results[0], dim);
  std::int64_t at = 0;
  for (const View& operand : call.operands) {
    const Rows from = rows_of(operand, dim);
    const Band band{call.results[0].raw() + at, to.bytes, operand.raw(), from.bytes};
    copy_band(call.workers, band, from.count, from.bytes);
    at += from.bytes;
  }
}

void pad(const KernelCall& call) {
  const graph::PadOf& of = std::get<graph::PadOf>(call.attributes);
  const Rows from = rows_of(call.operands[0], of.dim);
  const Rows to = rows_of(call.results[0], of.dim);
  auto* result = call.results[0].raw();
  const auto* source = call.operands[0].raw();
  const std::int64_t before = of.before * to.bytes_of_one;
  const std::int64_t after = of.after * to.bytes_of_one;
  call.workers.parallel(to.count, grain_of(to.bytes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::byte* start = result + row * to.bytes;
      std::memset(start, 0, static_cast<std::size_t>(before));
      if (from.bytes > 0) std::memcpy(start + before, source + row * from.bytes, static_cast<std::size_t>(from.bytes));
      std::memset(start + before + from.bytes, 0, static_cast<std::size_t>(after));
    }
  });
}

void cache_write(const KernelCall& call) {
  const View& cache = call.operands[0];
  const View& to = call.results[0];
  const std::int64_t bytes = rows_of(cache, 1).bytes_of_one;
  // The result may be the cache itself.
  if (to.data != cache.data) {
    copy_band(call.workers, {to.raw(), 0, cache.raw(), 0}, 1, cache.count() * size_of(cache.dtype));
  }
  each_written(call, [&](const WrittenRows& of) {
    for (std::int64_t i = 0; i < of.rows.size(0) * of.rows.size(1); ++i) {
      const std::int64_t slot = of.slot_of(i, cache.size(1));
      if (slot != graph::kNoSlot) std::memcpy(to.raw() + slot * bytes, of.rows.raw() + i * bytes, static_cast<std::size_t>(bytes));
    }
  });
}

}  // namespace moesh::backend::cpu
