// How a product is cut. A task makes a part of the result. For a chunk of the depth at a time it packs its rows of a,
// then goes over its columns panel by panel and runs the micro kernel down the rows; the first of them packs the panel
// of b on its way, where its columns run. Few rows read b where it lies. Tasks share nothing: that several of them pack
// the same operand is weighed where they are cut.
#include "backend/cpu/gemm.h"

#include <limits>

#include "backend/cpu/caches.h"
#include "backend/cpu/gemm_operands.h"
#include "backend/cpu/gemm_tiles.h"
#include "backend/cpu/micro_kernel.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/product_cut.h"
#include "backend/cpu/product_tasks.h"
#include "backend/cpu/scratch.h"
#include "backend/cpu/workspace.h"
#include "backend/scratch_list.h"
#include "base/place.h"

namespace moesh::backend::cpu {
namespace {

// What a task holds at most, in elements. Packed rows take more than half of a core's second cache, where they stay while all of b is read
// from memory: the more rows there are, the less often it is. The rest is for panels of b and results on their way.
template <typename P>
std::int64_t row_elements() {
  return second_cache_bytes() * 9 / 16 / static_cast<std::int64_t>(sizeof(P));
}
constexpr std::int64_t kSumElements = 448 * 512;  // that wait for the next chunk of the depth
template <typename P>
constexpr std::int64_t kPanelElements = std::is_same_v<P, bfloat16> ? 4 * 32 * 1024 : 4 * 32 * 256;

constexpr std::int64_t kMostTaskRows = 896;
constexpr double kPack = 24;                    // multiplications in the time that it takes to pack an element
constexpr double kPackingOnTheWay = 0.25;       // of what packing apart takes
constexpr std::int64_t kFewColumns = 64;        // for which packing a is not worth it, unless
constexpr std::int64_t kPageBytes = 4096;       // are between its rows: then all of a block share their place in the first cache
constexpr std::int64_t kDenseBytes = 512;       // between rows, so that they lie as close as packed
constexpr std::int64_t kStripSums = 16 * 1024;  // of all rows of a strip: they stay in the second cache
constexpr std::int64_t kFewestInStrip = 1024;   // bytes of a line of b: of shorter ones one thread reads more than two do
constexpr std::int64_t kMostInStrip = 2048;     // columns of several rows
constexpr std::int64_t kFewestOfOneRow = 1024;  // so that memory is read in long runs
constexpr std::int64_t kGrainWork = 200000;     // multiplications worth handing to a thread

// A thread's memory. Rows by step take more than they are, 8 lines for 6; blocks of sums hang over.
template <typename P>
struct Room {
  static std::int64_t of_rows() { return (row_elements<P>() / 48 + 128) * 64; }
  static std::int64_t bytes() {
    constexpr std::int64_t kSums = kSumElements + 32 * 1024;
    return (of_rows() + kPanelElements<P>) * static_cast<std::int64_t>(sizeof(P)) + kSums * static_cast<std::int64_t>(sizeof(Wide<P>));
  }

  P* rows;
  P* panels;
  Wide<P>* sums;
};

template <typename P>
Room<P> room() {
  thread_local Scratch mine;
  P* const rows = reinterpret_cast<P*>(mine.of<std::byte>(Room<P>::bytes()));
  P* const panels = rows + Room<P>::of_rows();
  return {rows, panels, reinterpret_cast<Wide<P>*>(panels + kPanelElements<P>)};
}

using Task = ProductPart;

// Operands are packed as P, elements of the result are sums of Wide<P>.
template <typename P, typename A, typename B, typename C>
class Product {
  using W = Wide<A>;

 public:
  Product(Workers* workers, Isa isa, const Matrices<const A>& a, const Matrices<const B>& b, const Matrices<C>& c,
          const MultiplyOptions& options)
      : workers_(workers),
        isa_(isa),
        kernels_(micro_kernels<P>(isa)),
        of_(a, b, c, options),
        in_place_(of_.b_columns_run && of_.b_pitch ? in_place_kernels<P, B>(isa) : InPlaceKernels<P, B>()) {
    for (std::int64_t i = 0; i < of_.batch; ++i) {
      const std::int64_t depth = of_.depth_of(i).size(), chunk = kernels_.chunk_of(depth);
      is_deep_ = is_deep_ || depth > chunk;
      depth_room_ = std::max(depth_room_, round_up(std::min(depth, chunk), kernels_.depth_step));
    }
  }

  void run() {
    if (takes_chunks()) return run_by_chunks();
    const ScratchList<Task> tasks = all_tasks();
    const auto work_of = [&](const Task& task) {
      return static_cast<double>(task.rows.size() * task.columns.size() * of_.depth_of(task.i).size());
    };
    run_tasks(workers_, of_, tasks, kGrainWork, work_of, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t next = task_after(of_, task, threads());
        run_task(tasks[at(task)], next < std::ssize(tasks) ? of_.begin_of_b(tasks[at(next)]) : nullptr);
      }
    });
  }

 private:
  std::int64_t threads() const { return workers_ == nullptr ? 1 : workers_->threads(); }
  bool takes_strips(std::int64_t i, Range rows) const {
    const bool are_few = rows.size() > 0 && rows.size() <= std::min(kernels_.rows, Strip<P, B>::kMostRows);
    return in_place_.strip != nullptr && are_few && of_.depth_of(i).size() > 0;
  }
  // Whether threads share the depth of the only row: where they would read short pieces of b, were they to share its
  // columns.
  bool takes_chunks() const {
    if (threads() == 1 || of_.batch != 1) return false;
    if (of_.rows_of(0).size() != 1 || !takes_strips(0, of_.rows_of(0))) return false;
    const std::int64_t depth = of_.depth_of(0).size(), chunks = divide_up(depth, kernels_.chunk_of(depth));
    const std::int64_t sums = of_.rows_of(0).size() * of_.columns;
    const bool is_narrow = of_.columns >= kernels_.columns && of_.columns < kFewestOfOneRow * threads();
    return is_narrow && chunks > 1 && chunks * sums <= kSumElements && sums * depth > kGrainWork;
  }
  ScratchList<Task> all_tasks() const {
    return tasks_of(of_, threads(), kGrainWork, [&](std::int64_t i) { return size_of(i); }, [&](std::int64_t i) { return strips_of(i); });
  }

  ProductSize size_of(std::int64_t i) const {
    return {.rows = of_.rows_of(i).size(),
            .columns = of_.columns,
            .depth = of_.depth_of(i).size(),
            .row_step = kernels_.rows,
            .column_step = kernels_.columns,
            .most_rows = std::min(kMostTaskRows, row_elements<P>() / depth_room_),
            .most_sums = is_deep_ && !of_.is_in_place() ? kSumElements : std::numeric_limits<std::int64_t>::max(),
            .pack_row = kPack,
            .pack_column = in_place_.pack != nullptr ? kPackingOnTheWay * kPack : kPack};
  }

  // Pieces of the columns of few rows: few and wide, so that memory is read in long runs, yet enough for all threads if each has a
  // kilobyte of a line.
  std::int64_t strips_of(std::int64_t i) const {
    if (!takes_strips(i, of_.rows_of(i))) return 0;
    const std::int64_t rows = of_.rows_of(i).size();
    const std::int64_t most = rows == 1 ? std::max(kFewestOfOneRow, divide_up(of_.columns, threads())) : kMostInStrip;
    const std::int64_t turns = divide_up(of_.columns, threads() * most);
    const std::int64_t fewest = rows == 1 ? kFewestOfOneRow : kFewestInStrip / static_cast<std::int64_t>(sizeof(B));
    return std::min(turns * threads(), divide_up(of_.columns, fewest));
  }

  // Few rows take strips, but for the columns at the end that are fewer than a block's. `next`: what the thread is likely
  // to read of b after this, or null.
  void run_task(Task task, const B* next) const {
    if (takes_strips(task.i, task.rows)) {
      const std::int64_t end = task.columns.begin + round_down(task.columns.size(), kernels_.columns);
      const std::int64_t width = round_down(kStripSums / task.rows.size(), kernels_.columns);
      for (std::int64_t column = task.columns.begin; column < end; column += width) {
        const Task strip{task.i, task.rows, {column, std::min(column + width, end)}};
        const Task rest{task.i, task.rows, {strip.columns.end, end}};
        run_strip(strip, rest.columns.size() > 0 ? of_.begin_of_b(rest) : next);
      }
      task.columns.begin = end;
    }
    if (task.columns.size() > 0) run_blocks(task);
  }

  void run_strip(const Task& task, const B* next) const {
    const Range depth = of_.depth_of(task.i);
    const std::int64_t columns = task.columns.size(), count = task.rows.size() * columns;
    Wide<P>* const sums = room<P>().sums;
    Wide<P>* const chunk_sums = sums + kStripSums;
    if (of_.options.add) of_.fetch(task, sums, columns);
    const std::int64_t chunk = kernels_.chunk_of(depth.size());
    for (std::int64_t begin = depth.begin; begin < depth.end; begin += chunk) {
      const Range of_chunk{begin, std::min(begin + chunk, depth.end)};
      const bool adds = of_.options.add || begin > depth.begin, is_last = of_chunk.end == depth.end;
      const B* const after = is_last ? next : of_.element_of_b(task.i, of_chunk.end, task.columns.begin);
      run_strip_chunk(task, of_chunk, after, adds ? chunk_sums : sums);
      if (adds) add_to(sums, chunk_sums, count);
    }
    of_.hand_over(isa_, task, sums, columns);
  }

  void run_strip_chunk(const Task& task, Range chunk, const B* next, Wide<P>* sums) const {
    Packer<P, A>(isa_, kernels_, depth_room_).rows(of_.lines_of_a(task.i), task.rows, chunk, room<P>().rows);
    const B* const b = of_.element_of_b(task.i, chunk.begin, task.columns.begin);
    in_place_.strip({chunk.size(), task.rows.size(), task.columns.size(), room<P>().rows, b, *of_.b_pitch, next == nullptr ? b : next, sums,
                     task.columns.size()});
  }

  void add_to(Wide<P>* sums, const Wide<P>* more, std::int64_t count) const {
    vectorised(isa_, [&]() MOESH_LOOP {
      for (std::int64_t j = 0; j < count; ++j) sums[j] += more[j];
    });
  }

  // Sums of chunks wait for those before them: they are added up in the same order.
  void run_by_chunks() const {
    const std::int64_t columns = round_down(of_.columns, kernels_.columns);
    const Task task{0, of_.rows_of(0), {0, columns}};
    const Range depth = of_.depth_of(0);
    const std::int64_t chunk = kernels_.chunk_of(depth.size());
    const std::int64_t count = task.rows.size() * columns, chunks = divide_up(depth.size(), chunk);
    Wide<P>* const sums = room<P>().sums;  // of this thread, for all of them
    workers_->parallel(chunks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t first = depth.begin + i * chunk;
        run_strip_chunk(task, {first, std::min(first + chunk, depth.end)}, nullptr, sums + i * count);
      }
    });
    if (of_.options.add) {
      Wide<P>* const before = sums + chunks * count;
      of_.fetch(task, before, columns);
      add_to(sums, before, count);
    }
    for (std::int64_t i = 1; i < chunks; ++i) add_to(sums, sums + i * count, count);
    of_.hand_over(isa_, task, sums, columns);
    if (columns < of_.columns) run_blocks({0, task.rows, {columns, of_.columns}});
  }

  void run_blocks(const Task& task) const {
    const Range depth = of_.depth_of(task.i);
    const Lines<A> a = of_.lines_of_a(task.i);
    const Lines<B> b = of_.lines_of_b(task.i);
    const std::int64_t panels = std::clamp<std::int64_t>(kPanelElements<P> / (kernels_.columns * depth_room_), 1, kMostPanels);
    const std::int64_t step = kernels_.chunk_of(depth.size());
    for (std::int64_t begin = depth.begin; begin == depth.begin || begin < depth.end; begin += step) {
      const Range chunk{begin, std::min(begin + step, depth.end)};
      const P* const rows = rows_where_they_lie(task, chunk);
      const std::int64_t lying = rows == nullptr ? 0 : round_down(task.rows.size(), kernels_.rows);
      Packer<P, A>(isa_, kernels_, depth_room_)
          .rows(a, {task.rows.begin + lying, task.rows.end}, chunk, room<P>().rows + lying / kernels_.rows * size_of_block());
      for (std::int64_t column = task.columns.begin; column < task.columns.end; column += panels * kernels_.columns) {
        run_panels(task, {column, std::min(column + panels * kernels_.columns, task.columns.end)}, chunk, b, rows);
      }
    }
  }

  std::int64_t size_of_block() const { return kernels_.block_lines() * depth_room_; }

  // Rows of a, where packing them costs more than it saves: they meet few columns, and do not all share a few places in the first cache.
  const P* rows_where_they_lie(const Task& task, Range chunk) const {
    if constexpr (std::is_same_v<P, A>) {
      const bool fits = kernels_.of_runs != nullptr && of_.a_depth_runs && of_.a_pitch && chunk.size() > 0 &&
                        chunk.size() % kernels_.depth_step == 0 && task.columns.size() % kernels_.columns == 0;
      const auto bytes = *of_.a_pitch * static_cast<std::int64_t>(sizeof(A));
      const bool pays = task.columns.size() <= kFewColumns ? bytes % kPageBytes != 0 : bytes <= kDenseBytes;
      Block<P> block;
      if (fits && pays && set_result(task, chunk, block)) {
        return of_.a.data + of_.a.batch[at(task.i)] + of_.a.rows[at(task.rows.begin)] + of_.a.columns[at(chunk.begin)];
      }
    }
    return nullptr;
  }

  // `rows`: where whole blocks of them lie unpacked, or null.
  void run_panels(const Task& task, Range columns, Range chunk, const Lines<B>& b, const P* rows) const {
    const P* const in_place = task.rows.size() <= 2 * kernels_.rows ? where_it_lies(b, columns, chunk) : nullptr;
    const bool packs_on_the_way = in_place_.pack != nullptr && task.rows.size() > kernels_.rows && chunk.size() > 0 && rows == nullptr;
    const std::int64_t apart = in_place != nullptr ? 0 : packs_on_the_way ? columns.size() % kernels_.columns : columns.size();
    Packer<P, B>(isa_, kernels_, depth_room_).columns(b, {columns.end - apart, columns.end}, chunk, packed_panel(columns.size() - apart));
    for (std::int64_t column = columns.begin; column < columns.end; column += kernels_.columns) {
      const Range panel{column, std::min(column + kernels_.columns, columns.end)};
      const std::int64_t done = column - columns.begin;
      if (in_place != nullptr) {
        run_panel(task, panel, chunk, {in_place + done, *of_.b_pitch}, rows);
      } else {
        P* const packed = packed_panel(done);
        const bool is_unpacked = column < columns.end - apart;
        run_panel(task, panel, chunk, {packed, kernels_.columns * MicroKernels<P>::kTogether, is_unpacked ? packed : nullptr}, rows);
      }
    }
  }

  P* packed_panel(std::int64_t column) const { return room<P>().panels + column * depth_room_; }

  // Kernels read b itself where its columns lie as they would packed.
  const P* where_it_lies(const Lines<B>& b, Range columns, Range chunk) const {
    if constexpr (std::is_same_v<P, B> && MicroKernels<P>::kTogether == 1) {
      if (of_.b_columns_run && of_.b_pitch && columns.size() % (kernels_.columns / 2) == 0 && chunk.size() > 0) {
        return b.data + b.lines[at(columns.begin)] + b.depth[at(chunk.begin)];
      }
    }
    return nullptr;
  }

  struct Panel {
    const P* b;
    std::int64_t pitch;
    P* to_pack = nullptr;  // where the first block packs it, before others read it
  };

  void run_panel(const Task& task, Range columns, Range chunk, const Panel& panel, const P* rows) const {
    const bool is_narrow = columns.size() <= kernels_.columns / 2;
    Block<P> block{.steps = divide_up(chunk.size(), kernels_.depth_step),
                   .a = room<P>().rows,
                   .a_room = depth_room_,
                   .b = panel.b,
                   .b_pitch = panel.pitch,
                   .add = of_.options.add || chunk.begin > of_.depth_of(task.i).begin};
    const auto kernel_of = [&](std::int64_t count) { return kernels_.find(is_narrow, count); };
    const auto multiply = [&](std::int64_t row, MicroKernel<P> kernel) {
      if (panel.to_pack == nullptr || row > 0) return kernel(block);
      in_place_.pack(block, {of_.element_of_b(task.i, chunk.begin, columns.begin), *of_.b_pitch, chunk.size(), panel.to_pack});
    };
    std::int64_t row = 0;
    const bool is_whole = columns.size() == kernels_.columns || columns.size() == kernels_.columns / 2;
    if (is_whole && set_result({task.i, task.rows, columns}, chunk, block)) {
      const MicroKernel<P> kernel = rows == nullptr ? kernel_of(kernels_.rows) : kernels_.of_runs;
      if (rows != nullptr) {
        block.a = rows;
        block.a_room = *of_.a_pitch;
      }
      const std::int64_t step = rows == nullptr ? size_of_block() : kernels_.rows * *of_.a_pitch;
      for (; row + kernels_.rows <= task.rows.size(); row += kernels_.rows, block.a += step) {
        multiply(row, kernel);
        block.c += block.c == nullptr ? 0 : kernels_.rows * block.c_pitch;
        block.rounded += block.rounded == nullptr ? 0 : kernels_.rows * block.c_pitch;
      }
      block.rounded = nullptr;
    }
    block.a = room<P>().rows + row / kernels_.rows * size_of_block();
    block.a_room = depth_room_;
    for (; row < task.rows.size(); row += kernels_.rows, block.a += size_of_block()) {
      const Task part{task.i, {task.rows.begin + row, std::min(task.rows.begin + row + kernels_.rows, task.rows.end)}, columns};
      run_block(task, part, chunk, block, [&] { multiply(row, kernel_of(part.rows.size())); });
    }
  }

  // Whether kernels write whole blocks to where the result lies.
  bool set_result(const Task& part, Range chunk, Block<P>& block) const {
    if (!of_.c_pitch) return false;
    block.c_pitch = *of_.c_pitch;
    if constexpr (std::is_same_v<C, W>) {
      block.c = of_.first_of(part);
      return true;
    } else if constexpr (std::is_same_v<C, bfloat16>) {
      const bool is_all = chunk.size() == of_.depth_of(part.i).size();
      if (kernels_.rounds && is_all && !of_.options.add) block.rounded = of_.first_of(part);
      return block.rounded != nullptr;
    }
    return false;
  }

  // Sums go into the result itself, or into a block of their own, or wait for the next chunk.
  template <typename Multiply>
  void run_block(const Task& task, const Task& part, Range chunk, Block<P>& block, const Multiply& multiply) const {
    W own[MicroKernels<P>::kMostRows * MicroKernels<P>::kMostColumns];
    const Range depth = of_.depth_of(task.i);
    const bool is_first = chunk.begin == depth.begin, is_last = chunk.end == depth.end;
    const bool is_whole = part.rows.size() % kernels_.row_step == 0 &&
                          (part.columns.size() == kernels_.columns || part.columns.size() == kernels_.columns / 2);
    block.add = of_.options.add || !is_first;
    if constexpr (std::is_same_v<C, W>) {
      if (of_.is_in_place() && is_whole) {
        block.c = of_.first_of(part);
        block.c_pitch = *of_.c_pitch;
        return multiply();
      }
    }
    const bool waits = !of_.is_in_place() && !(is_first && is_last);
    block.c_pitch = waits ? round_up(task.columns.size(), kernels_.columns) : MicroKernels<P>::kMostColumns;
    block.c = waits ? room<P>().sums + (part.rows.begin - task.rows.begin) * block.c_pitch + part.columns.begin - task.columns.begin : own;
    if (block.add && (is_first || !waits)) of_.fetch(part, block.c, block.c_pitch);
    multiply();
    if (is_last || !waits) of_.hand_over(isa_, part, block.c, block.c_pitch);
  }

  Workers* workers_;
  Isa isa_;
  const MicroKernels<P>& kernels_;
  ProductOperands<A, B, C> of_;
  InPlaceKernels<P, B> in_place_;        // where they can be taken
  bool is_deep_ = false;                 // more than a chunk
  std::int64_t depth_room_ = 1;          // of a chunk
};

}  // namespace

// A run in bfloat16 has products of float32 as well; those of float64 are for tests.
std::int64_t gemm_scratch_bytes() {
  return bytes_of_pages(Room<float>::bytes()) + std::max(bytes_of_pages(Room<bfloat16>::bytes()), tiles_scratch_bytes());
}

template <typename A, typename B, typename C>
void multiply(Workers* workers, Isa isa, const Matrices<const A>& a, const Matrices<const B>& b, const Matrices<C>& c,
              const MultiplyOptions& options) {
  static_assert(std::is_same_v<Wide<A>, Wide<B>>);
  if constexpr (std::is_same_v<A, bfloat16> && std::is_same_v<B, bfloat16>) {
#if defined(__x86_64__)
    if (isa == Isa::amx_bf16) return multiply_in_tiles(workers, a, b, c, options);
#endif
    if (packs_bfloat16(isa)) return Product<bfloat16, A, B, C>(workers, isa, a, b, c, options).run();
  }
  Product<Wide<A>, A, B, C>(workers, isa, a, b, c, options).run();
}

#define MOESH_MULTIPLY(A, B, C) \
  template void multiply(Workers*, Isa, const Matrices<const A>&, const Matrices<const B>&, const Matrices<C>&, const MultiplyOptions&)
MOESH_MULTIPLY(float, float, float);
MOESH_MULTIPLY(double, double, double);
MOESH_MULTIPLY(bfloat16, bfloat16, bfloat16);
MOESH_MULTIPLY(bfloat16, bfloat16, float);
MOESH_MULTIPLY(float, bfloat16, float);
#undef MOESH_MULTIPLY

}  // namespace moesh::backend::cpu
