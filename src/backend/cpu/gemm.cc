// How a product is cut. A task makes a tile of the result: it packs its rows of a, a chunk of 256 of the depth at a
// time, into its own cache, then goes over its columns panel by panel, packs the panel of b and runs the micro kernel
// down the rows. Tasks share nothing: with a few hundred rows, that several of them pack the same b costs little.
#include "backend/cpu/gemm.h"

#include "backend/cpu/micro_kernel.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/scratch.h"
#include "backend/cpu/workspace.h"
#include "backend/scratch_list.h"

namespace moesh::backend::cpu {
namespace {

constexpr std::int64_t kChunk = 256;          // of the depth
constexpr std::int64_t kTaskRows = 420;       // at most, so that a chunk of them stays in a core's cache
constexpr std::int64_t kTileColumns = 512;    // at most, where sums wait in a tile for the next chunk
constexpr std::int64_t kFewestColumns = 128;  // that are worth packing the rows for
constexpr std::int64_t kTasksPerThread = 4;   // so that threads end together
constexpr std::int64_t kGrainWork = 200000;   // multiplications worth handing to a thread

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }
std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct ThreadScratch {
  Scratch rows_of_a, panel_of_b, tile;
};

ThreadScratch& scratch() {
  thread_local ThreadScratch mine;
  return mine;
}

// A part of the result of product `i` of the batch.
struct Task {
  std::int64_t i;
  Range rows;
  Range columns;
};

// Where sums of a task go: into the result itself, or into a tile of its own that is padded to whole panels.
template <typename W>
struct Target {
  W* data;
  std::int64_t pitch;
  bool padded;
};

template <typename P, typename W, typename C>
void store_block(Isa isa, const W* from, std::int64_t from_pitch, std::int64_t rows, std::int64_t columns, C* to,
                 std::int64_t to_pitch) {
#if defined(__x86_64__)
  if constexpr (std::is_same_v<P, bfloat16> && std::is_same_v<C, bfloat16>) {
    return store_avx512_bf16(from, from_pitch, rows, columns, to, to_pitch);
  }
#endif
  vectorised(isa, [&]() MOESH_LOOP {
    for (std::int64_t i = 0; i < rows; ++i) {
      const W* __restrict line = from + i * from_pitch;
      C* __restrict out = to + i * to_pitch;
      for (std::int64_t j = 0; j < columns; ++j) out[j] = store<C>(line[j]);
    }
  });
}

// Operands are packed as P, elements of the result are sums of Wide<P>.
template <typename P, typename A, typename B, typename C>
class Product {
  using W = Wide<A>;
  static constexpr std::int64_t kStep = MicroKernels<P>::kStep;

 public:
  Product(Workers* workers, Isa isa, const Matrices<const A>& a, const Matrices<const B>& b, const Matrices<C>& c,
          const MultiplyOptions& options)
      : workers_(workers), isa_(isa), kernels_(micro_kernels<P>(isa)), a_(a), b_(b), c_(c), options_(options) {
    columns_ = static_cast<std::int64_t>(c.columns.size());
    batch_ = static_cast<std::int64_t>(c.batch.size());
    even_ = is_even();
    in_place_ = even_ && std::is_same_v<C, W>;
  }

  void run() {
    const ScratchList<Task> tasks = all_tasks();
    if (tasks.empty()) return;
    const auto count = static_cast<std::int64_t>(tasks.size());
    const auto run = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) run_task(tasks[at(task)]);
    };
    if (workers_ == nullptr) return run(0, count);
    std::int64_t work = 0;
    for (const Task& task : tasks) work += task.rows.size() * task.columns.size() * depth_of(task.i).size();
    workers_->parallel(count, 1 + kGrainWork * count / std::max<std::int64_t>(1, work), run);
  }

 private:
  Range rows_of(std::int64_t i) const {
    if (options_.row_begins.empty()) return {0, static_cast<std::int64_t>(c_.rows.size())};
    return {options_.row_begins[at(i)], options_.row_begins[at(i + 1)]};
  }
  Range depth_of(std::int64_t i) const {
    if (options_.depth_begins.empty()) return {0, static_cast<std::int64_t>(a_.columns.size())};
    return {options_.depth_begins[at(i)], options_.depth_begins[at(i + 1)]};
  }

  // Rows of the result lie evenly, and each of them runs.
  bool is_even() const {
    const auto rows = static_cast<std::int64_t>(c_.rows.size());
    for (std::int64_t i = 2; i < rows; ++i) {
      if (c_.rows[at(i)] - c_.rows[at(i - 1)] != c_.rows[1] - c_.rows[0]) return false;
    }
    return is_run(c_.columns, {0, columns_});
  }
  std::int64_t row_pitch() const { return c_.rows.size() > 1 ? c_.rows[1] - c_.rows[0] : 0; }
  C* first_of(const Task& task) const {
    return c_.data + c_.batch[at(task.i)] + c_.rows[at(task.rows.begin)] + c_.columns[at(task.columns.begin)];
  }

  static std::int64_t bands_of(Range rows) { return std::max<std::int64_t>(1, divide_up(rows.size(), kTaskRows)); }

  ScratchList<Task> all_tasks() const {
    std::int64_t bands = 0;
    bool deep = false;
    for (std::int64_t i = 0; i < batch_; ++i) {
      bands += bands_of(rows_of(i));
      deep = deep || depth_of(i).size() > kChunk;
    }
    ScratchList<Task> tasks;
    if (bands == 0) return tasks;
    const std::int64_t threads = workers_ == nullptr ? 1 : workers_->threads();
    const std::int64_t parts = threads == 1 ? 1 : divide_up(kTasksPerThread * threads, bands);
    const std::int64_t most = deep && !in_place_ ? kTileColumns : columns_;
    const std::int64_t width =
        std::min(most, std::max(kFewestColumns, round_up(divide_up(columns_, parts), kernels_.columns)));
    for (std::int64_t i = 0; i < batch_; ++i) {
      const Range rows = rows_of(i);
      const std::int64_t height = round_up(divide_up(rows.size(), bands_of(rows)), kernels_.rows);
      for (std::int64_t row = rows.begin; row < rows.end; row += height) {
        for (std::int64_t column = 0; column < columns_; column += width) {
          tasks.push_back({i, {row, std::min(row + height, rows.end)}, {column, std::min(column + width, columns_)}});
        }
      }
    }
    return tasks;
  }

  void run_task(const Task& task) const {
    const Range depth = depth_of(task.i);
    // Sums of a single chunk leave the tile at once, so it has but one panel.
    const bool one_panel = !in_place_ && depth.size() <= kChunk;
    const Target<W> target =
        target_of(task, one_panel ? kernels_.columns : round_up(task.columns.size(), kernels_.columns));
    // As for the most rows, so that more of them in a later step take no more.
    P* rows = scratch().rows_of_a.template of<P>(round_up(kTaskRows, kernels_.rows) * kChunk + kPackSlack);
    P* panel = scratch().panel_of_b.template of<P>(kernels_.columns * kChunk + kPackSlack);
    const Lines<A> a{a_.data + a_.batch[at(task.i)], a_.rows, a_.columns};
    const Lines<B> b{b_.data + b_.batch[at(task.i)], b_.columns, b_.rows};
    for (std::int64_t begin = depth.begin; begin == depth.begin || begin < depth.end; begin += kChunk) {
      const Range chunk{begin, std::min(begin + kChunk, depth.end)};
      pack(isa_, a, task.rows, chunk, kernels_.rows, rows);
      for (std::int64_t column = 0; column < task.columns.size(); column += kernels_.columns) {
        const Range columns{task.columns.begin + column,
                            std::min(task.columns.begin + column + kernels_.columns, task.columns.end)};
        const Target<W> to{target.data + (one_panel ? 0 : column), target.pitch, target.padded};
        const Task part{task.i, task.rows, columns};
        if (begin == depth.begin && !in_place_ && options_.add) fetch(part, to);
        pack(isa_, b, columns, chunk, kernels_.columns, panel);
        run_panel(part, divide_up(chunk.size(), kStep), rows, panel, to, options_.add || begin > depth.begin);
        if (chunk.end == depth.end && !in_place_) hand_over(part, to);
      }
    }
  }

  Target<W> target_of(const Task& task, std::int64_t tile_pitch) const {
    if constexpr (std::is_same_v<C, W>) {
      if (in_place_) return {first_of(task), row_pitch(), false};
    }
    return {scratch().tile.template of<W>(kTaskRows * tile_pitch), tile_pitch, true};
  }

  // One panel of columns.
  void run_panel(const Task& task, std::int64_t steps, const P* a, const P* b, const Target<W>& target,
                 bool add) const {
    const std::int64_t count = task.columns.size();
    const bool narrow = count <= kernels_.columns / 2;
    const auto& kernels = narrow ? kernels_.narrow : kernels_.whole;
    const bool fits = target.padded || count == (narrow ? kernels_.columns / 2 : kernels_.columns);
    for (std::int64_t row = 0; row < task.rows.size(); row += kernels_.rows) {
      const std::int64_t rows = std::min(kernels_.rows, task.rows.size() - row);
      const P* a_panel = a + row * steps * kStep;
      W* c = target.data + row * target.pitch;
      if (fits) {
        kernels[rows - 1](steps, a_panel, b, c, target.pitch, add);
      } else {
        W tile[MicroKernels<P>::kMostRows * MicroKernels<P>::kMostColumns];
        kernels[rows - 1](steps, a_panel, b, tile, kernels_.columns, false);
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t j = 0; j < count; ++j) {
            W& to = c[i * target.pitch + j];
            to = add ? to + tile[i * kernels_.columns + j] : tile[i * kernels_.columns + j];
          }
        }
      }
    }
  }

  // What c holds, where it is to be added to.
  void fetch(const Task& task, const Target<W>& target) const {
    for (std::int64_t row = task.rows.begin; row < task.rows.end; ++row) {
      W* line = target.data + (row - task.rows.begin) * target.pitch;
      const C* from = c_.data + c_.batch[at(task.i)] + c_.rows[at(row)];
      for (std::int64_t column = task.columns.begin; column < task.columns.end; ++column) {
        line[column - task.columns.begin] = static_cast<W>(load(from[c_.columns[at(column)]]));
      }
    }
  }

  void hand_over(const Task& task, const Target<W>& target) const {
    const std::int64_t count = task.columns.size();
    if (even_) {
      store_block<P>(isa_, target.data, target.pitch, task.rows.size(), count, first_of(task), row_pitch());
      return;
    }
    const std::int64_t* columns = c_.columns.data() + task.columns.begin;
    for (std::int64_t row = task.rows.begin; row < task.rows.end; ++row) {
      const W* line = target.data + (row - task.rows.begin) * target.pitch;
      C* to = c_.data + c_.batch[at(task.i)] + c_.rows[at(row)];
      for (std::int64_t j = 0; j < count; ++j) to[columns[j]] = store<C>(line[j]);
    }
  }

  Workers* workers_;
  Isa isa_;
  const MicroKernels<P>& kernels_;
  Matrices<const A> a_;
  Matrices<const B> b_;
  Matrices<C> c_;
  MultiplyOptions options_;
  std::int64_t columns_ = 0;
  std::int64_t batch_ = 0;
  bool even_ = false;
  bool in_place_ = false;
};

}  // namespace

// Of float32; a tile has whole panels.
std::int64_t gemm_scratch_bytes() {
  constexpr std::int64_t kRows = kTaskRows + MicroKernels<float>::kMostRows;
  constexpr std::int64_t kColumns = kTileColumns + MicroKernels<float>::kMostColumns;
  constexpr std::int64_t kPanel = MicroKernels<float>::kMostColumns * kChunk;
  return (kRows * kChunk + kPanel + kRows * kColumns + 2 * kPackSlack) * size_of(DType::float32);
}

template <typename A, typename B, typename C>
void multiply(Workers* workers, Isa isa, const Matrices<const A>& a, const Matrices<const B>& b, const Matrices<C>& c,
              const MultiplyOptions& options) {
  static_assert(std::is_same_v<Wide<A>, Wide<B>>);
  if constexpr (std::is_same_v<A, bfloat16> && std::is_same_v<B, bfloat16>) {
    if (packs_bfloat16(isa)) return Product<bfloat16, A, B, C>(workers, isa, a, b, c, options).run();
  }
  Product<Wide<A>, A, B, C>(workers, isa, a, b, c, options).run();
}

#define MOESH_MULTIPLY(A, B, C)                                                                                 \
  template void multiply(Workers*, Isa, const Matrices<const A>&, const Matrices<const B>&, const Matrices<C>&, \
                         const MultiplyOptions&)
MOESH_MULTIPLY(float, float, float);
MOESH_MULTIPLY(double, double, double);
MOESH_MULTIPLY(bfloat16, bfloat16, bfloat16);
MOESH_MULTIPLY(bfloat16, bfloat16, float);
MOESH_MULTIPLY(float, bfloat16, float);
#undef MOESH_MULTIPLY

}  // namespace moesh::backend::cpu
