// How a product is cut. The depth falls into chunks of 256 that a micro kernel sums; b is packed once a round, in panels as
// wide as the micro kernel's tile, as much as the last-level cache likes; a task then packs its rows of a, chunk by chunk,
// and runs the micro kernel over a tile of the result that stays in its own cache.
#include "run/cpu/gemm.h"

#include <vector>

#include "run/cpu/micro_kernel.h"
#include "run/cpu/pack.h"
#include "run/cpu/scratch.h"

namespace moesh::run::cpu {
namespace {

constexpr std::int64_t kChunk = 256;               // of the depth
constexpr std::int64_t kTaskColumns = 512;         // of the result
constexpr std::int64_t kTaskRows = 140;            // at most; a multiple of a micro kernel's rows
constexpr std::int64_t kPackedBytes = 8 << 20;     // of b in a round
constexpr std::int64_t kRoundDepth = 16 * kChunk;  // of deeper products, partial results wait from round to round
constexpr std::int64_t kStripRows = 4096;          // of which there are this many rows
constexpr std::int64_t kGrainWork = 200000;        // multiplications worth handing to a thread

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }
std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// What a thread needs. A task may run on the thread that owns the packed b and the waiting results.
struct ThreadScratch {
  Scratch packed_a, packed_b, tile, waiting;
};

ThreadScratch& scratch() {
  thread_local ThreadScratch mine;
  return mine;
}

// A tile of the result that one task makes.
struct Task {
  std::int64_t i;  // of the batch
  Range rows;
  Range columns;
};

// Work between two barriers: some products of the batch, or a part of one.
template <typename W>
struct Round {
  Range batch;
  Range rows;          // of each product, from its first one on
  Range columns;
  std::int64_t depth;  // of which this much is done
  W* b;                // packed: [batch][chunk][panel][depth][columns of a tile]
  std::int64_t b_pitch;  // from product to product
  W* waiting;          // results of earlier rounds, [rows][columns]; null when there is one round
};

template <typename A, typename B, typename C>
class Product {
  using W = Wide<A>;

 public:
  Product(Workers* workers, Isa isa, const Matrices<const A>& a, const Matrices<const B>& b, const Matrices<C>& c,
          const MultiplyOptions& options)
      : workers_(workers), isa_(isa), kernels_(micro_kernels<W>(isa)), a_(a), b_(b), c_(c), options_(options) {
    task_rows_ = kTaskRows / kernels_.rows * kernels_.rows;
    columns_ = static_cast<std::int64_t>(c.columns.size());
    batch_ = static_cast<std::int64_t>(c.batch.size());
  }

  void run() {
    if (columns_ == 0) return;
    for (std::int64_t i = 0; i < batch_;) {
      const std::int64_t together = small_products_from(i);
      if (together > 0) {
        run_round({{i, i + together}, {0, most_rows({i, i + together})}, {0, columns_}, 0, nullptr, 0, nullptr});
        i += together;
      } else {
        run_alone(i++);
      }
    }
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
  // What is left of a product's depth after earlier rounds, as far as one round goes.
  Range depth_of(const Round<W>& round, std::int64_t i) const {
    const Range depth = depth_of(i);
    return {depth.begin + round.depth, std::min(depth.begin + round.depth + kRoundDepth, depth.end)};
  }
  std::int64_t most_rows(Range batch) const {
    std::int64_t most = 0;
    for (std::int64_t i = batch.begin; i < batch.end; ++i) most = std::max(most, rows_of(i).size());
    return most;
  }
  std::int64_t width_of(Range columns) const { return round_up(columns.size(), kernels_.columns); }

  // How many products from this one on have a packed b that fits into a round, one behind the other.
  std::int64_t small_products_from(std::int64_t first) const {
    std::int64_t deepest = 0;
    std::int64_t i = first;
    for (; i < batch_; ++i) {
      deepest = std::max(deepest, depth_of(i).size());
      const std::int64_t elements = (i + 1 - first) * deepest * width_of({0, columns_});
      if (deepest > kRoundDepth || elements * static_cast<std::int64_t>(sizeof(W)) > kPackedBytes) break;
    }
    return i - first;
  }

  void run_alone(std::int64_t i) {
    const std::int64_t rows = rows_of(i).size();
    const std::int64_t depth = depth_of(i).size();
    const bool waits = depth > kRoundDepth;
    const std::int64_t strip = waits ? kStripRows / task_rows_ * task_rows_ : rows;
    const std::int64_t fitting = kPackedBytes / (std::min(depth, kRoundDepth) * static_cast<std::int64_t>(sizeof(W)));
    const std::int64_t width = std::max(kTaskColumns, fitting / kTaskColumns * kTaskColumns);
    for (std::int64_t column = 0; column < columns_; column += width) {
      const Range columns{column, std::min(column + width, columns_)};
      for (std::int64_t row = 0; row < rows; row += strip) {
        const Range strip_rows{row, std::min(row + strip, rows)};
        W* waiting = waits ? scratch().waiting.of<W>(strip_rows.size() * width_of(columns)) : nullptr;
        for (std::int64_t done = 0; done < depth; done += kRoundDepth) {
          run_round({{i, i + 1}, strip_rows, columns, done, nullptr, 0, waiting});
        }
      }
    }
  }

  void run_round(Round<W> round) {
    std::int64_t deepest = 0;
    for (std::int64_t i = round.batch.begin; i < round.batch.end; ++i) deepest = std::max(deepest, depth_of(round, i).size());
    round.b_pitch = deepest * width_of(round.columns);
    round.b = scratch().packed_b.of<W>(round.batch.size() * round.b_pitch);
    pack_b(round);
    run_tasks(round);
  }

  template <typename Body>
  void for_each(const std::vector<Task>& tasks, std::int64_t work_of_one, const Body& body) {
    const auto run = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) body(tasks[at(task)]);
    };
    const auto count = static_cast<std::int64_t>(tasks.size());
    if (workers_ == nullptr) return run(0, count);
    workers_->parallel(count, 1 + kGrainWork / std::max<std::int64_t>(1, work_of_one), run);
  }

  // Where the panels of a chunk begin; `chunk` counts elements of the depth in this round.
  W* packed_b(const Round<W>& round, std::int64_t i, std::int64_t chunk) const {
    return round.b + (i - round.batch.begin) * round.b_pitch + chunk * width_of(round.columns);
  }

  void pack_b(const Round<W>& round) {
    const std::int64_t band = 4 * kernels_.columns;
    std::vector<Task> tasks;  // whose rows are a chunk of the depth
    for (std::int64_t i = round.batch.begin; i < round.batch.end; ++i) {
      const Range depth = depth_of(round, i);
      if (rows_of(i).size() == 0) continue;
      for (std::int64_t chunk = depth.begin; chunk < depth.end; chunk += kChunk) {
        for (std::int64_t column = round.columns.begin; column < round.columns.end; column += band) {
          tasks.push_back({i, {chunk, std::min(chunk + kChunk, depth.end)}, {column, std::min(column + band, round.columns.end)}});
        }
      }
    }
    const std::int64_t work = tasks.empty() ? 1 : tasks[0].rows.size() * tasks[0].columns.size();
    for_each(tasks, work * 16, [&](const Task& task) {
      W* out = packed_b(round, task.i, task.rows.begin - depth_of(round, task.i).begin);
      const Lines<B> lines{b_.data + b_.batch[at(task.i)], b_.columns, b_.rows};
      pack(isa_, lines, task.columns, task.rows, kernels_.columns,
           out + (task.columns.begin - round.columns.begin) * task.rows.size());
    });
  }

  void run_tasks(const Round<W>& round) {
    std::vector<Task> tasks;
    for (std::int64_t i = round.batch.begin; i < round.batch.end; ++i) {
      const Range all = rows_of(i);
      const Range rows{all.begin + round.rows.begin, std::min(all.begin + round.rows.end, all.end)};
      for (std::int64_t row = rows.begin; row < rows.end; row += task_rows_) {
        for (std::int64_t column = round.columns.begin; column < round.columns.end; column += kTaskColumns) {
          tasks.push_back({i, {row, std::min(row + task_rows_, rows.end)},
                           {column, std::min(column + kTaskColumns, round.columns.end)}});
        }
      }
    }
    if (tasks.empty()) return;
    const std::int64_t work = tasks[0].rows.size() * tasks[0].columns.size() * depth_of(round, tasks[0].i).size();
    for_each(tasks, work, [&](const Task& task) { run_task(round, task); });
  }

  void run_task(const Round<W>& round, const Task& task) {
    const bool waits = round.waiting != nullptr;
    const std::int64_t pitch = width_of(waits ? round.columns : task.columns);
    const std::int64_t first_row = rows_of(task.i).begin + round.rows.begin;
    W* tile = waits ? round.waiting + (task.rows.begin - first_row) * pitch + (task.columns.begin - round.columns.begin)
                    : scratch().tile.of<W>(task.rows.size() * pitch);
    const Range depth = depth_of(round, task.i);
    bool add = options_.add || round.depth > 0;
    if (round.depth == 0 && (options_.add || depth.size() == 0)) fetch(task, tile, pitch);
    W* a = scratch().packed_a.of<W>(round_up(task.rows.size(), kernels_.rows) * kChunk);
    const Lines<A> lines{a_.data + a_.batch[at(task.i)], a_.rows, a_.columns};
    for (std::int64_t begin = depth.begin; begin < depth.end; begin += kChunk, add = true) {
      const Range chunk{begin, std::min(begin + kChunk, depth.end)};
      pack(isa_, lines, task.rows, chunk, kernels_.rows, a);
      const W* b = packed_b(round, task.i, begin - depth.begin) + (task.columns.begin - round.columns.begin) * chunk.size();
      run_chunk(task, chunk.size(), a, b, tile, pitch, add);
    }
    if (depth.end == depth_of(task.i).end) hand_over(task, tile, pitch);
  }

  void run_chunk(const Task& task, std::int64_t depth, const W* a, const W* b, W* tile, std::int64_t pitch, bool add) const {
    for (std::int64_t column = 0; column < task.columns.size(); column += kernels_.columns) {
      const bool half = task.columns.size() - column <= kernels_.columns / 2;
      const auto& kernels = half ? kernels_.narrow : kernels_.whole;
      for (std::int64_t row = 0; row < task.rows.size(); row += kernels_.rows) {
        const std::int64_t count = std::min(kernels_.rows, task.rows.size() - row);
        kernels[count - 1](depth, a + row * depth, b + column * depth, tile + row * pitch + column, pitch, add);
      }
    }
  }

  // What c holds, where it is to be added to; else zeros.
  void fetch(const Task& task, W* tile, std::int64_t pitch) const {
    for (std::int64_t row = task.rows.begin; row < task.rows.end; ++row) {
      W* line = tile + (row - task.rows.begin) * pitch;
      const C* from = c_.data + c_.batch[at(task.i)] + c_.rows[at(row)];
      for (std::int64_t column = task.columns.begin; column < task.columns.end; ++column) {
        line[column - task.columns.begin] = options_.add ? static_cast<W>(load(from[c_.columns[at(column)]])) : W(0);
      }
    }
  }

  void hand_over(const Task& task, const W* tile, std::int64_t pitch) const {
    const bool run = is_run(c_.columns, task.columns);
    const std::int64_t count = task.columns.size();
    const std::int64_t* columns = c_.columns.data() + task.columns.begin;
    for (std::int64_t row = task.rows.begin; row < task.rows.end; ++row) {
      const W* __restrict line = tile + (row - task.rows.begin) * pitch;
      C* __restrict to = c_.data + c_.batch[at(task.i)] + c_.rows[at(row)];
      vectorised(isa_, [&]() MOESH_LOOP {
        if (run) {
          for (std::int64_t j = 0; j < count; ++j) to[columns[0] + j] = store<C>(line[j]);
        } else {
          for (std::int64_t j = 0; j < count; ++j) to[columns[j]] = store<C>(line[j]);
        }
      });
    }
  }

  Workers* workers_;
  Isa isa_;
  const MicroKernels<W>& kernels_;
  Matrices<const A> a_;
  Matrices<const B> b_;
  Matrices<C> c_;
  MultiplyOptions options_;
  std::int64_t task_rows_ = 0;
  std::int64_t columns_ = 0;
  std::int64_t batch_ = 0;
};

}  // namespace

template <typename A, typename B, typename C>
void multiply(Workers* workers, Isa isa, const Matrices<const A>& a, const Matrices<const B>& b, const Matrices<C>& c,
              const MultiplyOptions& options) {
  static_assert(std::is_same_v<Wide<A>, Wide<B>>);
  Product<A, B, C>(workers, isa, a, b, c, options).run();
}

#define MOESH_MULTIPLY(A, B, C)                                                                                  \
  template void multiply(Workers*, Isa, const Matrices<const A>&, const Matrices<const B>&, const Matrices<C>&, \
                         const MultiplyOptions&)
MOESH_MULTIPLY(float, float, float);
MOESH_MULTIPLY(double, double, double);
MOESH_MULTIPLY(bfloat16, bfloat16, bfloat16);
MOESH_MULTIPLY(bfloat16, bfloat16, float);
MOESH_MULTIPLY(float, bfloat16, float);
#undef MOESH_MULTIPLY

}  // namespace moesh::run::cpu
