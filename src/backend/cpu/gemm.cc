// The GEMM driver: how a product is partitioned and computed. A task computes a part of the result, one chunk of the depth at a time. Rows
// of a are read in place if each of them is contiguous, and packed otherwise. The task goes over its columns panel by panel and runs the
// micro-kernel down the rows; the first block of rows packs the panel of b on the way, if the columns of b are contiguous. Products of few
// rows read b in place. Tasks share nothing: that several of them pack the same operand is taken into account when the product is
// partitioned.
#include "backend/cpu/gemm.h"

#include <limits>

#include "backend/cpu/caches.h"
#include "backend/cpu/gemm_operands.h"
#include "backend/cpu/gemm_tiles.h"
#include "backend/cpu/left_rows.h"
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

// Elements that stay in a core's L2 cache while a task needs them: more than half of the cache, as the rest is for what streams past. They
// are either packed rows, past which all panels of b stream (the more rows, the less often), or rows that are read in place and packed
// panels, half each.
template <typename P>
std::int64_t l2_resident_elements() {
  return l2_cache_bytes() * 9 / 16 / static_cast<std::int64_t>(sizeof(P));
}
constexpr std::int64_t kSumElements = 448 * 512;  // sums that wait for the next chunk of the depth
template <typename P>
constexpr std::int64_t kPanelElements = std::is_same_v<P, bfloat16> ? 4 * 32 * 1028 : 4 * 32 * 260;

constexpr std::int64_t kMostTaskRows = 896;
constexpr double kPack = 24;                    // time to pack an element, in multiplications
constexpr double kReadInPlace = 2;              // time to read an element in place, in multiplications
constexpr double kPackingOnTheWay = 0.25;       // time to pack an element on the way, relative to packing it separately
constexpr std::int64_t kRowBytesAhead = 256;    // prefetch distance in rows that are read in place, in bytes
constexpr std::int64_t kFewRows = 16;           // at most this many rows read b in strips: memory takes longer than the multiplications
constexpr std::int64_t kFewRowsOfMemory = 32;   // replaces kFewRows if no cache holds b
constexpr std::int64_t kStripSums = 16 * 1024;  // sums of all rows of a strip: they stay in the L2 cache
constexpr std::int64_t kFewestInStrip = 1024;   // fewest bytes of a line of b in a strip: one thread reads shorter lines faster than two do
constexpr std::int64_t kMostInStrip = 2048;     // most columns of a strip of several rows
constexpr std::int64_t kFewestOfOneRow = 1024;  // fewest columns of a strip of one row, so that memory is read in long runs
constexpr std::int64_t kGrainWork = 200000;     // multiplications worth handing to a thread

// Scratch memory of one thread. Six rows packed step by step take the room of eight, and the last block of sums may overhang.
template <typename P>
struct Room {
  static std::int64_t of_rows() { return (l2_resident_elements<P>() / 48 + 128) * 64; }
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

// Operands are packed as P; elements of the result are sums of type Wide<P>.
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
        in_place_(of_.b_columns_contiguous && of_.b_pitch ? in_place_kernels<P, B>(isa) : InPlaceKernels<P, B>()) {
    std::int64_t all_depths = 0;
    for (std::int64_t i = 0; i < of_.batch; ++i) {
      const std::int64_t depth = of_.depth_of(i).size(), chunk = kernels_.chunk_of(depth);
      all_depths += depth;
      is_deep_ = is_deep_ || depth > chunk;
      depth_room_ = std::max(depth_room_, round_up(std::min(depth, chunk), kernels_.depth_step));
    }
    const std::int64_t bytes_of_b = all_depths * of_.columns * static_cast<std::int64_t>(sizeof(B));
    few_rows_ = bytes_of_b < kStreamingBytes ? kFewRows : kFewRowsOfMemory;
    depth_room_ += kernels_.depth_step;  // blocks a power of two apart would share cache sets
  }

  void run() {
    if (takes_chunks()) return run_by_chunks();
    const ScratchList<ProductPart> tasks = all_tasks();
    const auto work_of = [&](const ProductPart& task) {
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
    const bool are_few = rows.size() > 0 && rows.size() <= few_rows_;
    return in_place_.strip != nullptr && are_few && of_.depth_of(i).size() > 0;
  }
  // Whether threads divide the depth of a single row among them: if they would read short pieces of b when they divided its columns.
  bool takes_chunks() const {
    if (threads() == 1 || of_.batch != 1) return false;
    if (of_.rows_of(0).size() != 1 || !takes_strips(0, of_.rows_of(0))) return false;
    const std::int64_t depth = of_.depth_of(0).size(), chunks = divide_up(depth, kernels_.chunk_of(depth));
    const std::int64_t sums = of_.rows_of(0).size() * of_.columns;
    const bool is_narrow = of_.columns >= kernels_.columns && of_.columns < kFewestOfOneRow * threads();
    const bool fit = (chunks + 1) * sums <= kSumElements;  // and what is added to
    return is_narrow && chunks > 1 && fit && sums * depth > kGrainWork;
  }
  ScratchList<ProductPart> all_tasks() const {
    return tasks_of(
        of_, threads(), kGrainWork, [&](std::int64_t i) { return size_of(i); }, [&](std::int64_t i) { return strips_of(i); });
  }

  ProductSize size_of(std::int64_t i) const {
    const bool in_place = reads_rows_in_place(i), by_two_panels = in_place && kernels_.wide_runs.rows > 0 && of_.columns > kernels_.columns;
    return {.rows = of_.rows_of(i).size(),
            .columns = of_.columns,
            .depth = of_.depth_of(i).size(),
            .block_rows = !in_place       ? kernels_.rows
                          : by_two_panels ? kernels_.wide_runs.rows
                                          : kernels_.runs.rows,
            .block_columns = (by_two_panels ? 2 : 1) * kernels_.columns,
            .most_rows = in_place ? std::numeric_limits<std::int64_t>::max()
                                  : std::min(kMostTaskRows, l2_resident_elements<P>() / depth_room_),
            .most_sums = is_deep_ && !of_.is_in_place() ? kSumElements : std::numeric_limits<std::int64_t>::max(),
            .pack_row = in_place ? kReadInPlace : kPack,
            .pack_column = in_place_.pack != nullptr ? kPackingOnTheWay * kPack : kPack};
  }

  // Whether kernels read rows of a in place.
  bool reads_rows_in_place(std::int64_t i) const {
    const std::int64_t depth = of_.depth_of(i).size();
    const bool are_contiguous = of_.a_depth_contiguous && of_.a_pitch.has_value();
    return std::is_same_v<P, A> && kernels_.runs.rows > 0 && are_contiguous && depth > 0 && depth % kernels_.depth_step == 0;
  }

  // The number of strips into which the columns of a product of few rows are divided: few and wide ones, so that memory is read in long
  // runs, yet enough for all threads if each has a kilobyte of a line. 0 for a product that is computed in blocks.
  std::int64_t strips_of(std::int64_t i) const {
    if (!takes_strips(i, of_.rows_of(i))) return 0;
    const std::int64_t rows = of_.rows_of(i).size();
    const std::int64_t most = rows == 1 ? std::max(kFewestOfOneRow, divide_up(of_.columns, threads())) : kMostInStrip;
    const std::int64_t turns = divide_up(of_.columns, threads() * most);
    const std::int64_t fewest = rows == 1 ? kFewestOfOneRow : kFewestInStrip / static_cast<std::int64_t>(sizeof(B));
    return std::min(turns * threads(), divide_up(of_.columns, fewest));
  }

  // Few rows are computed in strips, except for the columns at the end if they are fewer than those of a block. `next`: what the thread is
  // likely to read of b afterwards, or null.
  void run_task(ProductPart task, const B* next) const {
    if (takes_strips(task.i, task.rows)) {
      const std::int64_t end = task.columns.begin + round_down(task.columns.size(), kernels_.columns);
      const std::int64_t width = round_down(kStripSums / task.rows.size(), kernels_.columns);
      for (std::int64_t column = task.columns.begin; column < end; column += width) {
        const ProductPart strip{task.i, task.rows, {column, std::min(column + width, end)}};
        const ProductPart rest{task.i, task.rows, {strip.columns.end, end}};
        run_strip(strip, rest.columns.size() > 0 ? of_.begin_of_b(rest) : next);
      }
      task.columns.begin = end;
    }
    if (task.columns.size() > 0) run_blocks(task);
  }

  void run_strip(const ProductPart& task, const B* next) const {
    const Range depth = of_.depth_of(task.i);
    const std::int64_t columns = task.columns.size(), count = task.rows.size() * columns;
    Wide<P>* const sums = room<P>().sums;
    Wide<P>* const chunk_sums = sums + kStripSums;
    if (of_.options.add) of_.load_result(task, sums, columns);
    const std::int64_t chunk = kernels_.chunk_of(depth.size());
    for (std::int64_t begin = depth.begin; begin < depth.end; begin += chunk) {
      const Range of_chunk{begin, std::min(begin + chunk, depth.end)};
      const bool adds = of_.options.add || begin > depth.begin, is_last = of_chunk.end == depth.end;
      const B* const after = is_last ? next : of_.element_of_b(task.i, of_chunk.end, task.columns.begin);
      run_strip_chunk(task, of_chunk, after, adds ? chunk_sums : sums);
      if (adds) add_to(sums, chunk_sums, count);
    }
    of_.write_back(isa_, task, sums, columns);
  }

  void run_strip_chunk(const ProductPart& task, Range chunk, const B* next, Wide<P>* sums) const {
    const std::int64_t of_group = evened(kernels_, std::min(kernels_.rows, Strip<P, B>::kMostTogether), task.rows.size());
    Packer<P, A>(isa_, kernels_, depth_room_).rows(of_.lines_of_a(task.i), task.rows, chunk, of_group, room<P>().rows);
    const B* const b = of_.element_of_b(task.i, chunk.begin, task.columns.begin);
    in_place_.strip({.depth = chunk.size(),
                     .rows = task.rows.size(),
                     .columns = task.columns.size(),
                     .a = room<P>().rows,
                     .group_rows = of_group,
                     .a_pitch = kernels_.row_room * depth_room_,
                     .b = b,
                     .b_pitch = *of_.b_pitch,
                     .next = next == nullptr ? b : next,
                     .c = sums,
                     .c_pitch = task.columns.size()});
  }

  void add_to(Wide<P>* sums, const Wide<P>* more, std::int64_t count) const {
    vectorised(isa_, [&]() MOESH_LOOP {
      for (std::int64_t j = 0; j < count; ++j) sums[j] += more[j];
    });
  }

  // Every chunk has its own sums; these are added up at the end, in the same order as in run_strip.
  void run_by_chunks() const {
    const std::int64_t columns = round_down(of_.columns, kernels_.columns);
    const ProductPart task{0, of_.rows_of(0), {0, columns}};
    const Range depth = of_.depth_of(0);
    const std::int64_t chunk = kernels_.chunk_of(depth.size());
    const std::int64_t count = task.rows.size() * columns, chunks = divide_up(depth.size(), chunk);
    Wide<P>* const sums = room<P>().sums;  // memory of this thread, for the sums of all threads
    workers_->parallel(chunks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t first = depth.begin + i * chunk;
        run_strip_chunk(task, {first, std::min(first + chunk, depth.end)}, nullptr, sums + i * count);
      }
    });
    if (of_.options.add) {
      Wide<P>* const before = sums + chunks * count;
      of_.load_result(task, before, columns);
      add_to(sums, before, count);
    }
    for (std::int64_t i = 1; i < chunks; ++i) add_to(sums, sums + i * count, count);
    of_.write_back(isa_, task, sums, columns);
    if (columns < of_.columns) run_blocks({0, task.rows, {columns, of_.columns}});
  }

  void run_blocks(const ProductPart& task) const {
    const Range depth = of_.depth_of(task.i);
    const std::int64_t step = kernels_.chunk_of(depth.size()), of_panel = kernels_.columns * depth_room_;
    const bool in_place = reads_rows_in_place(task.i);
    const std::int64_t panels = in_place ? std::max<std::int64_t>(2, l2_resident_elements<P>() / 2 / of_panel)
                                         : std::clamp<std::int64_t>(kPanelElements<P> / of_panel, 1, kMostPanels);
    P* const packed = in_place ? room<P>().rows : room<P>().panels;
    for (std::int64_t begin = depth.begin; begin == depth.begin || begin < depth.end; begin += step) {
      const Range chunk{begin, std::min(begin + step, depth.end)};
      const Rows rows = rows_of(task, chunk);
      for (std::int64_t column = task.columns.begin; column < task.columns.end; column += panels * kernels_.columns) {
        const Range columns{column, std::min(column + panels * kernels_.columns, task.columns.end)};
        run_part(task, columns, chunk, rows, packed);
      }
    }
  }

  // The rows of a task for one chunk: in place, at a pitch, or packed.
  struct Rows {
    const P* data;
    std::optional<std::int64_t> pitch;
  };
  Rows rows_of(const ProductPart& task, Range chunk) const {
    if constexpr (std::is_same_v<P, A>) {
      if (reads_rows_in_place(task.i)) return {of_.element_of_a(task.i, task.rows.begin, chunk.begin), of_.a_pitch};
    }
    Packer<P, A>(isa_, kernels_, depth_room_).rows(of_.lines_of_a(task.i), task.rows, chunk, kernels_.rows, room<P>().rows);
    return {room<P>().rows, std::nullopt};
  }

  // Panels of b, in place or packed.
  struct Panels {
    const P* data;
    std::int64_t first;   // first column
    std::int64_t pitch;   // from one step to the next
    std::int64_t beside;  // from one panel to the next
  };

  // Computes some columns of a task, which are packed into `packed`: whole panels on the way, by the first block of rows, if more rows
  // follow. Rows that are read in place go by bands.
  void run_part(const ProductPart& task, Range columns, Range chunk, const Rows& rows, P* packed) const {
    Panels panels{packed, columns.begin, kernels_.columns * MicroKernels<P>::kTogether, kernels_.columns * depth_room_};
    ProductPart part{task.i, task.rows, columns};
    if (const P* const in_place = where_it_lies(part, chunk)) {
      panels = {in_place, columns.begin, *of_.b_pitch, kernels_.columns};
      return run_blocks_of(task, part, chunk, rows, panels);
    }
    const bool packs_on_the_way = in_place_.pack != nullptr && task.rows.size() > kernels_.rows && chunk.size() > 0;
    const std::int64_t whole = packs_on_the_way ? round_down(columns.size(), kernels_.columns) : 0;
    const Range others{columns.begin + whole, columns.end};
    Packer<P, B>(isa_, kernels_, depth_room_).columns(of_.lines_of_b(task.i), others, chunk, packed + whole * depth_room_);
    if (whole > 0) {
      part.rows.begin += kernels_.rows;
      const Range first{task.rows.begin, part.rows.begin};
      pack_on_the_way(task, {task.i, first, {columns.begin, others.begin}}, chunk, rows, packed);
      run_blocks_of(task, {task.i, first, others}, chunk, rows, panels);
    }
    const std::int64_t band = rows.pitch ? rows_of_band(chunk, *rows.pitch) : part.rows.size();
    for (std::int64_t row = part.rows.begin; row < part.rows.end; row += band) {
      run_blocks_of(task, {task.i, {row, std::min(row + band, part.rows.end)}, columns}, chunk, rows, panels);
    }
  }

  // Rows of a band: of the rows that are read in place at this pitch, those that stay in the cache while a part of b streams past.
  std::int64_t rows_of_band(Range chunk, std::int64_t pitch) const {
    constexpr auto kBytes = static_cast<std::int64_t>(sizeof(P));
    const std::int64_t rows = std::min(l2_resident_elements<P>() / 2 / depth_room_, rows_in_l2(chunk.size() * kBytes, pitch * kBytes));
    return round_up(rows, std::max(kernels_.runs.rows, kernels_.wide_runs.rows));
  }

  // The panels of b in place, if its columns lie as they would packed, so that kernels can read them there; null otherwise.
  const P* where_it_lies(const ProductPart& part, Range chunk) const {
    if constexpr (std::is_same_v<P, B> && MicroKernels<P>::kTogether == 1) {
      const bool are_whole = part.columns.size() % (kernels_.columns / 2) == 0;
      if (part.rows.size() <= 2 * kernels_.rows && of_.b_columns_contiguous && of_.b_pitch && are_whole && chunk.size() > 0) {
        return of_.element_of_b(part.i, chunk.begin, part.columns.begin);
      }
    }
    return nullptr;
  }

  Block<P> block_of(const ProductPart& task, Range chunk, const Rows& rows) const {
    return {.steps = divide_up(chunk.size(), kernels_.depth_step),
            .a = rows.data,
            .a_room = rows.pitch.value_or(depth_room_),
            .a_ahead = kRowBytesAhead / static_cast<std::int64_t>(sizeof(P)),
            .add = of_.options.add || chunk.begin > of_.depth_of(task.i).begin};
  }

  // Multiplies the first block of rows of a task with one panel after another, and packs these.
  void pack_on_the_way(const ProductPart& task, const ProductPart& first, Range chunk, const Rows& rows, P* packed) const {
    const PackingKernel<P, B> kernel = rows.pitch ? in_place_.pack_for_runs : in_place_.pack;
    Block<P> block = block_of(task, chunk, rows);
    for (std::int64_t column = first.columns.begin; column < first.columns.end; column += kernels_.columns) {
      const ProductPart part{task.i, first.rows, {column, column + kernels_.columns}};
      const Unpacked<P, B> b{of_.element_of_b(task.i, chunk.begin, column), *of_.b_pitch, chunk.size(), packed};
      if (set_result(part, chunk, block)) kernel(block, b);
      else run_block(task, part, chunk, block, [&] { kernel(block, b); });
      packed += kernels_.columns * depth_room_;
    }
  }

  // The kernels for blocks of this many columns, indexed by the number of rows minus 1.
  const MicroKernel<P>* kernels_for(const Rows& rows, std::int64_t columns) const {
    const bool is_narrow = columns <= kernels_.columns / 2;
    if (!rows.pitch) return is_narrow ? kernels_.narrow : kernels_.whole;
    return (is_narrow ? kernels_.narrow_runs : columns > kernels_.columns ? kernels_.wide_runs : kernels_.runs).of;
  }

  // Computes the blocks of a part, one column of blocks after another.
  void run_blocks_of(const ProductPart& task, const ProductPart& part, Range chunk, const Rows& rows, const Panels& panels) const {
    if (part.rows.size() == 0 || part.columns.size() == 0) return;
    Block<P> block = block_of(task, chunk, rows);
    block.b_pitch = panels.pitch;
    block.b_beside = panels.beside;
    const bool is_direct = part.columns.size() % (kernels_.columns / 2) == 0 && set_result(part, chunk, block);
    Wide<P>* const c = block.c;
    bfloat16* const rounded = block.rounded;
    const auto make = [&](const ProductPart& one) {
      const std::int64_t row = one.rows.begin - task.rows.begin;
      block.a = rows.data + (rows.pitch ? row * *rows.pitch : row / kernels_.rows * kernels_.row_room * depth_room_);
      block.b = panels.data + (one.columns.begin - panels.first) / kernels_.columns * panels.beside;
      const MicroKernel<P> kernel = kernels_for(rows, one.columns.size())[one.rows.size() - 1];
      if (!is_direct) return run_block(task, one, chunk, block, [&] { kernel(block); });
      const std::int64_t place = (one.rows.begin - part.rows.begin) * block.c_pitch + one.columns.begin - part.columns.begin;
      block.c = c == nullptr ? nullptr : c + place;
      block.rounded = rounded == nullptr ? nullptr : rounded + place;
      kernel(block);
    };
    const std::int64_t two = 2 * kernels_.columns;
    const bool are_wide = rows.pitch && kernels_.wide_runs.rows > 0 && part.columns.size() >= two;
    const std::int64_t height = !rows.pitch ? kernels_.rows : are_wide ? kernels_.wide_runs.rows : kernels_.runs.rows;
    for (std::int64_t column = part.columns.begin, end = column; column < part.columns.end; column = end) {
      const bool takes_two = are_wide && part.columns.end - column >= two;
      end = std::min(column + (takes_two ? two : kernels_.columns), part.columns.end);
      for (std::int64_t row = part.rows.begin; row < part.rows.end; row += height) {
        make({task.i, {row, std::min(row + height, part.rows.end)}, {column, end}});
      }
    }
  }

  // Lets kernels write whole blocks into the result itself, if they can; returns whether they do.
  bool set_result(const ProductPart& part, Range chunk, Block<P>& block) const {
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

  // The sums go into the result itself, into a temporary block, or to where they wait for the next chunk.
  template <typename Multiply>
  void run_block(const ProductPart& task, const ProductPart& part, Range chunk, Block<P>& block, const Multiply& multiply) const {
    constexpr std::int64_t kWidest = 2 * MicroKernels<P>::kMostColumns;
    W own[MicroKernels<P>::kMostRows * kWidest];
    const Range depth = of_.depth_of(task.i);
    const bool is_first = chunk.begin == depth.begin, is_last = chunk.end == depth.end;
    const bool is_whole = part.columns.size() % (kernels_.columns / 2) == 0;
    block.add = of_.options.add || !is_first;
    if constexpr (std::is_same_v<C, W>) {
      if (of_.is_in_place() && is_whole) {
        block.c = of_.first_of(part);
        block.c_pitch = *of_.c_pitch;
        return multiply();
      }
    }
    const bool waits = !of_.is_in_place() && !(is_first && is_last);
    block.c_pitch = waits ? round_up(task.columns.size(), kernels_.columns) : kWidest;
    assert(!waits || task.rows.size() * block.c_pitch <= kSumElements);
    block.c = waits ? room<P>().sums + (part.rows.begin - task.rows.begin) * block.c_pitch + part.columns.begin - task.columns.begin : own;
    if (block.add && (is_first || !waits)) of_.load_result(part, block.c, block.c_pitch);
    multiply();
    if (is_last || !waits) of_.write_back(isa_, part, block.c, block.c_pitch);
  }

  Workers* workers_;
  Isa isa_;
  const MicroKernels<P>& kernels_;
  ProductOperands<A, B, C> of_;
  InPlaceKernels<P, B> in_place_;  // null if they cannot be used
  bool is_deep_ = false;           // whether a product has more than one chunk
  std::int64_t depth_room_ = 1;    // depth for which a packed chunk has room
  std::int64_t few_rows_;          // largest number of rows that are computed in strips
};

}  // namespace

// A bfloat16 run has float32 GEMMs as well; float64 GEMMs are only for tests.
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
#undef MOESH_MULTIPLY

}  // namespace moesh::backend::cpu
