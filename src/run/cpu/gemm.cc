// How a product is cut. The depth falls into chunks of 256 that a micro kernel sums; b is packed once a round, in panels as
// wide as the micro kernel's tile, as much as the last-level cache likes; a task then packs its rows of a, chunk by chunk,
// and runs the micro kernel over a tile of the result that stays in its own cache.
#include "run/cpu/gemm.h"

#include <algorithm>

#include "run/cpu/micro_kernel.h"
#include "run/cpu/scratch.h"
#include "run/cpu/simd.h"

namespace moesh::run::cpu {
namespace {

constexpr std::int64_t kChunk = 256;               // of the depth
constexpr std::int64_t kTaskColumns = 512;         // of the result
constexpr std::int64_t kTaskRows = 140;            // at most; a multiple of a micro kernel's rows
constexpr std::int64_t kPackedBytes = 8 << 20;     // of b in a round
constexpr std::int64_t kRoundDepth = 16 * kChunk;  // of deeper products, partial results wait from round to round
constexpr std::int64_t kStripRows = 4096;          // of which there are this many rows

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

struct Range {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t size() const { return end - begin; }
};

bool is_run(std::span<const std::int64_t> offsets, Range range) {
  for (std::int64_t i = range.begin + 1; i < range.end; ++i) {
    if (offsets[static_cast<std::size_t>(i)] != offsets[static_cast<std::size_t>(i - 1)] + 1) return false;
  }
  return true;
}

// Elements (depth, outer) of a panel to out[depth * width + outer], zeros up to the width.
template <typename T>
[[gnu::always_inline]] inline void pack_panel(const T* data, std::span<const std::int64_t> outer, Range lines, std::span<const std::int64_t> depth,
                Range chunk, bool depth_is_run, std::int64_t width, Wide<T>* __restrict out) {
  const std::int64_t count = lines.size();
  const std::int64_t* lines_at = outer.data() + lines.begin;
  const std::int64_t* depth_at = depth.data() + chunk.begin;
  if (count < width) std::fill_n(out, chunk.size() * width, Wide<T>(0));
  if (depth_is_run) {
    for (std::int64_t i = 0; i < count; ++i) {
      const T* __restrict line = data + lines_at[i] + depth_at[0];
      for (std::int64_t p = 0; p < chunk.size(); ++p) out[p * width + i] = load(line[p]);
    }
  } else if (is_run(outer, lines)) {
    for (std::int64_t p = 0; p < chunk.size(); ++p) {
      const T* __restrict run = data + lines_at[0] + depth_at[p];
      for (std::int64_t i = 0; i < count; ++i) out[p * width + i] = load(run[i]);
    }
  } else {
    for (std::int64_t p = 0; p < chunk.size(); ++p) {
      for (std::int64_t i = 0; i < count; ++i) out[p * width + i] = load(data[lines_at[i] + depth_at[p]]);
    }
  }
}

// Panels of `width` lines over the depth, chunk by chunk.
template <typename T>
void pack(Isa isa, const T* data, std::span<const std::int64_t> outer, Range lines, std::span<const std::int64_t> depth,
          Range chunk, std::int64_t width, Wide<T>* out) {
  const bool depth_is_run = is_run(depth, chunk);
  for (std::int64_t begin = lines.begin; begin < lines.end; begin += width) {
    const Range panel{begin, std::min(begin + width, lines.end)};
    vectorised(isa, [&]() MOESH_LOOP { pack_panel(data, outer, panel, depth, chunk, depth_is_run, width, out); });
    out += width * chunk.size();
  }
}

// The scratch of one thread. A task may run on the thread that owns the packed b, so they are apart.
template <typename W>
W* packed_b(std::int64_t count) {
  thread_local Scratch scratch;
  return scratch.of<W>(count);
}
template <typename W>
W* packed_a(std::int64_t count) {
  thread_local Scratch scratch;
  return scratch.of<W>(count);
}
template <typename W>
W* task_tile(std::int64_t count) {
  thread_local Scratch scratch;
  return scratch.of<W>(count);
}
template <typename W>
W* waiting_strip(std::int64_t count) {
  thread_local Scratch scratch;
  return scratch.of<W>(count);
}

template <typename A, typename B, typename C>
class Product {
  using W = Wide<A>;

 public:
  Product(Workers* workers, Isa isa, const Matrices<const A>& a, const Matrices<const B>& b, const Matrices<C>& c, bool add)
      : workers_(workers), isa_(isa), kernels_(micro_kernels<W>(isa)), a_(a), b_(b), c_(c), add_(add) {
    task_rows_ = kTaskRows / kernels_.rows * kernels_.rows;
    rows_ = static_cast<std::int64_t>(c.rows.size());
    columns_ = static_cast<std::int64_t>(c.columns.size());
    depth_ = static_cast<std::int64_t>(a.columns.size());
    batch_ = static_cast<std::int64_t>(c.batch.size());
  }

  void run() {
    if (rows_ == 0 || columns_ == 0 || batch_ == 0) return;
    const std::int64_t depth = std::min(depth_, kRoundDepth);
    const std::int64_t fitting = kPackedBytes / std::max<std::int64_t>(1, depth * static_cast<std::int64_t>(sizeof(W)));
    const std::int64_t width = std::max(kTaskColumns, fitting / kTaskColumns * kTaskColumns);
    const std::int64_t strip = depth_ > kRoundDepth ? kStripRows / task_rows_ * task_rows_ : rows_;
    const bool fits_whole = columns_ <= width && depth_ <= kRoundDepth;
    const std::int64_t together = fits_whole ? std::clamp<std::int64_t>(fitting / round_up(columns_, kernels_.columns), 1, batch_) : 1;
    for (std::int64_t i = 0; i < batch_; i += together) {
      for (std::int64_t column = 0; column < columns_; column += width) {
        for (std::int64_t row = 0; row < rows_; row += strip) {
          run_strip({i, std::min(i + together, batch_)}, {row, std::min(row + strip, rows_)},
                    {column, std::min(column + width, columns_)});
        }
      }
    }
  }

 private:
  // One round over the depth, or several.
  struct Round {
    Range batch;
    Range rows;
    Range columns;
    Range depth;
    W* b;        // packed: [batch][chunk][panel][depth][columns of a tile]
    W* waiting;  // results of earlier rounds, [rows][columns]; null when there is one round
  };

  void run_strip(Range batch, Range rows, Range columns) {
    const std::int64_t width = round_up(columns.size(), kernels_.columns);
    const bool waits = depth_ > kRoundDepth;
    W* waiting = waits ? waiting_strip<W>(rows.size() * width) : nullptr;
    W* b = packed_b<W>(batch.size() * std::min(depth_, kRoundDepth) * width);
    for (std::int64_t begin = 0; begin == 0 || begin < depth_; begin += kRoundDepth) {
      const Round round{batch, rows, columns, {begin, std::min(begin + kRoundDepth, depth_)}, b, waiting};
      pack_b(round);
      run_tasks(round);
    }
  }

  void for_blocks(std::int64_t count, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& task) {
    if (workers_ != nullptr) return workers_->parallel(count, grain, task);
    task(0, count);
  }

  std::int64_t width_of(const Round& round) const { return round_up(round.columns.size(), kernels_.columns); }

  // Where a chunk's panels of packed b begin.
  W* chunk_of_b(const Round& round, std::int64_t i, std::int64_t chunk) const {
    return round.b + ((i - round.batch.begin) * round.depth.size() + (chunk - round.depth.begin)) * width_of(round);
  }

  void pack_b(const Round& round) {
    const std::int64_t chunks = divide_up(round.depth.size(), kChunk);
    const std::int64_t parts = divide_up(round.columns.size(), kernels_.columns * 4);
    const std::int64_t elements = std::min(kChunk, round.depth.size()) * std::min(round.columns.size(), kernels_.columns * 4);
    const std::int64_t grain = 1 + 16384 / std::max<std::int64_t>(1, elements);
    for_blocks(round.batch.size() * chunks * parts, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t i = round.batch.begin + task / (chunks * parts);
        const std::int64_t depth = round.depth.begin + task / parts % chunks * kChunk;
        const Range chunk{depth, std::min(depth + kChunk, round.depth.end)};
        const std::int64_t skipped = task % parts * kernels_.columns * 4;
        const std::int64_t column = round.columns.begin + skipped;
        const Range columns{column, std::min(column + kernels_.columns * 4, round.columns.end)};
        pack(isa_, b_.data + b_.batch[static_cast<std::size_t>(i)], b_.columns, columns, b_.rows, chunk, kernels_.columns,
             chunk_of_b(round, i, depth) + skipped * chunk.size());
      }
    });
  }

  void run_tasks(const Round& round) {
    const std::int64_t bands = divide_up(round.rows.size(), task_rows_);
    const std::int64_t parts = divide_up(round.columns.size(), kTaskColumns);
    const std::int64_t work = std::min(round.rows.size(), task_rows_) * std::min(round.columns.size(), kTaskColumns) *
                              std::max<std::int64_t>(1, round.depth.size());
    for_blocks(round.batch.size() * bands * parts, 1 + 200000 / work, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t row = round.rows.begin + task / parts % bands * task_rows_;
        const std::int64_t column = round.columns.begin + task % parts * kTaskColumns;
        run_task(round, round.batch.begin + task / (bands * parts), {row, std::min(row + task_rows_, round.rows.end)},
                 {column, std::min(column + kTaskColumns, round.columns.end)});
      }
    });
  }

  void run_task(const Round& round, std::int64_t i, Range rows, Range columns) {
    const std::int64_t padded = round_up(rows.size(), kernels_.rows);
    const bool waits = round.waiting != nullptr;
    const std::int64_t pitch = waits ? width_of(round) : round_up(columns.size(), kernels_.columns);
    W* tile = waits ? round.waiting + (rows.begin - round.rows.begin) * pitch + (columns.begin - round.columns.begin)
                    : task_tile<W>(rows.size() * pitch);
    const bool first = round.depth.begin == 0;
    if (first && (add_ || depth_ == 0)) fetch(i, rows, columns, tile, pitch);
    W* a = packed_a<W>(padded * kChunk);
    for (std::int64_t depth = round.depth.begin; depth < round.depth.end; depth += kChunk) {
      const Range chunk{depth, std::min(depth + kChunk, round.depth.end)};
      pack(isa_, a_.data + a_.batch[static_cast<std::size_t>(i)], a_.rows, rows, a_.columns, chunk, kernels_.rows, a);
      const W* b = chunk_of_b(round, i, depth) + (columns.begin - round.columns.begin) * chunk.size();
      run_chunk(chunk.size(), rows.size(), columns.size(), a, b, tile, pitch, add_ || depth > 0);
    }
    if (round.depth.end == depth_) hand_over(i, rows, columns, tile, pitch);
  }

  void run_chunk(std::int64_t depth, std::int64_t rows, std::int64_t columns, const W* a, const W* b, W* tile,
                 std::int64_t pitch, bool add) const {
    for (std::int64_t column = 0; column < columns; column += kernels_.columns) {
      const auto& kernels = columns - column <= kernels_.columns / 2 ? kernels_.narrow : kernels_.whole;
      for (std::int64_t row = 0; row < rows; row += kernels_.rows) {
        const std::int64_t count = std::min(kernels_.rows, rows - row);
        kernels[count - 1](depth, a + row * depth, b + column * depth, tile + row * pitch + column, pitch, add);
      }
    }
  }

  // What c holds, to be added to; zeros when it is not.
  void fetch(std::int64_t i, Range rows, Range columns, W* tile, std::int64_t pitch) const {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      W* line = tile + (row - rows.begin) * pitch;
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        line[column - columns.begin] = add_ ? static_cast<W>(load(*c_at(i, row, column))) : W(0);
      }
    }
  }

  void hand_over(std::int64_t i, Range rows, Range columns, const W* tile, std::int64_t pitch) const {
    const bool run = is_run(c_.columns, columns);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const W* __restrict line = tile + (row - rows.begin) * pitch;
      if (run) {
        C* __restrict to = c_at(i, row, columns.begin);
        const std::int64_t count = columns.size();
        vectorised(isa_, [&]() MOESH_LOOP {
          for (std::int64_t j = 0; j < count; ++j) to[j] = store<C>(line[j]);
        });
      } else {
        for (std::int64_t j = columns.begin; j < columns.end; ++j) *c_at(i, row, j) = store<C>(line[j - columns.begin]);
      }
    }
  }

  C* c_at(std::int64_t i, std::int64_t row, std::int64_t column) const {
    return c_.data + c_.batch[static_cast<std::size_t>(i)] + c_.rows[static_cast<std::size_t>(row)] +
           c_.columns[static_cast<std::size_t>(column)];
  }

  Workers* workers_;
  Isa isa_;
  const MicroKernels<W>& kernels_;
  Matrices<const A> a_;
  Matrices<const B> b_;
  Matrices<C> c_;
  bool add_;
  std::int64_t task_rows_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  std::int64_t depth_ = 0;
  std::int64_t batch_ = 0;
};

}  // namespace

template <typename A, typename B, typename C>
void multiply(Workers* workers, Isa isa, const Matrices<const A>& a, const Matrices<const B>& b, const Matrices<C>& c,
              bool add) {
  static_assert(std::is_same_v<Wide<A>, Wide<B>>);
  Product<A, B, C>(workers, isa, a, b, c, add).run();
}

#define MOESH_MULTIPLY(A, B, C)                                                                                \
  template void multiply(Workers*, Isa, const Matrices<const A>&, const Matrices<const B>&, const Matrices<C>&, bool)
MOESH_MULTIPLY(float, float, float);
MOESH_MULTIPLY(double, double, double);
MOESH_MULTIPLY(bfloat16, bfloat16, bfloat16);
MOESH_MULTIPLY(bfloat16, bfloat16, float);
MOESH_MULTIPLY(float, bfloat16, float);
#undef MOESH_MULTIPLY

}  // namespace moesh::run::cpu
