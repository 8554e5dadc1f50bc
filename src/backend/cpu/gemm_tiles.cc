#include "backend/cpu/gemm_tiles.h"

#include <algorithm>

#include "backend/cpu/cache_line.h"
#include "backend/cpu/caches.h"
#include "backend/cpu/gemm_operands.h"
#include "backend/cpu/micro_kernel.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/product_cut.h"
#include "backend/cpu/product_tasks.h"
#include "backend/cpu/scratch.h"
#include "backend/cpu/tile_block.h"
#include "backend/cpu/tile_instructions.h"
#include "backend/cpu/tile_strip.h"
#include "backend/cpu/workspace.h"
#include "backend/scratch_list.h"

namespace moesh::backend::cpu {

namespace {

constexpr std::int64_t kChunk = 1024;                         // depth that is packed at a time, about
constexpr std::int64_t kMostChunk = kChunk * 3 / 2;           // and at most
constexpr std::int64_t kPad = 2;                              // extra depth of a panel: panels a power of two apart share cache sets
constexpr std::int64_t kPanelElements = 512 * (1024 + kPad);  // elements of packed panels of b: half of an L2 cache
constexpr std::int64_t kSumElements = 512 * 1024;             // sums that wait for the next chunk of the depth
constexpr std::int64_t kBlock = 2 * kTileRows;                // rows and columns of a block
constexpr std::int64_t kBlockElements = kBlock * kBlock;
constexpr std::int64_t kRowsTogether = 4 * kBlock;         // rows that are packed together
constexpr std::int64_t kPiece = 512;                       // depth of rows that stay in the L1 cache
constexpr std::int64_t kFewRows = kBlock;                  // at most this many rows meet b in pieces that the L1 cache holds
constexpr std::int64_t kFewDepth = 64, kFewColumns = 128;  // of such a piece
constexpr std::int64_t kFewestInBand = 256;                // rows that are worth packing b for once more
constexpr std::int64_t kHeld = 12 * 1024;                  // elements that the L1 cache holds beside results
constexpr std::int64_t kMostInPlace = 2048;                // largest depth for which sums accumulate in the result itself

struct Room {
  static constexpr std::int64_t kRows = 2 * 1024 * 1024;  // elements of packed rows that are kept for several parts of the columns
  static_assert(kRows >= kRowsTogether * kMostChunk);
  static constexpr std::int64_t kBytes = (kRows + kPanelElements) * static_cast<std::int64_t>(sizeof(bfloat16)) +
                                         (kSumElements + 2 * kBlockElements) * static_cast<std::int64_t>(sizeof(float));
  bfloat16* rows;
  bfloat16* panels;
  float* sums;
  float* own;  // sums of two blocks
};

Room room() {
  thread_local Scratch mine;
  auto* const rows = reinterpret_cast<bfloat16*>(mine.of<std::byte>(Room::kBytes));
  bfloat16* const panels = rows + Room::kRows;
  auto* const sums = reinterpret_cast<float*>(panels + kPanelElements);
  return {rows, panels, sums, sums + kSumElements};
}

}  // namespace

std::int64_t tiles_scratch_bytes() { return bytes_of_pages(Room::kBytes); }

#if defined(__x86_64__)
namespace {

constexpr std::int64_t kStripColumns = 2048;  // columns of a strip: many, so that memory is read in long runs
constexpr std::int64_t kStripDepth = 32768;   // depth of a strip, whose rows fit into the memory of panels
constexpr std::int64_t kFewestInStrip = 256;  // columns worth handing to a thread
constexpr std::int64_t kGrainWork = 1500000;  // multiplications worth handing to a thread

// Time that other work takes, in multiplications.
constexpr double kPackRun = 40, kPackRow = 200, kPackColumn = 150, kPackTransposed = 200;
constexpr double kBegin = 300000, kShare = 800000;
constexpr double kReadElement = 64;  // an element of b, from memory

template <typename C>
class TileProduct {
 public:
  TileProduct(Workers* workers, const Matrices<const bfloat16>& a, const Matrices<const bfloat16>& b, const Matrices<C>& c,
              const MultiplyOptions& options)
      : workers_(workers), of_(a, b, c, options), is_streamed_(is_streamed()), kernels_(micro_kernels<bfloat16>(kIsa)) {}

  void run() const {
    const ScratchList<ProductPart> tasks = all_tasks();
    const auto work_of_task = [&](const ProductPart& task) { return work_of(task); };
    run_tasks(workers_, of_, tasks, kGrainWork, work_of_task, [&](std::int64_t begin, std::int64_t end) {
      const Room mine = room();
      const KernelsInUse in_use(kernels_);
      TilePipeline pipeline(mine.own);
      for (std::int64_t task = begin; task < end; ++task) {
        if (!takes_strips(tasks[at(task)])) {
          run_task(mine, tasks[at(task)], pipeline);
        } else {
          pipeline.finish();
          const std::int64_t next = task_after(of_, task, threads());
          run_strips(mine, tasks[at(task)], next < std::ssize(tasks) ? of_.begin_of_b(tasks[at(next)]) : nullptr);
        }
      }
      pipeline.finish();
      if (is_streamed_) fence_streaming_stores();
    });
  }

 private:
  static constexpr Isa kIsa = Isa::amx_bf16;

  // In multiplications of tiles. The work of strips is to wait for memory.
  double work_of(const ProductPart& task) const {
    const double work = size_of(task.i, task.rows.size(), task.columns.size()).work();
    return takes_strips(task) ? kReadElement * work / static_cast<double>(task.rows.size()) : work;
  }

  // Whether the result is written with non-temporal stores: the caches would not hold it until it is read, and need not first fetch the
  // lines that it replaces.
  bool is_streamed() const {
    std::int64_t elements = 0;
    for (std::int64_t i = 0; i < of_.batch; ++i) elements += of_.rows_of(i).size() * of_.columns;
    if (elements * static_cast<std::int64_t>(sizeof(C)) < kStreamingBytes || of_.options.add || !of_.c_pitch) return false;
    const auto is_line = [](std::int64_t count) { return count * static_cast<std::int64_t>(sizeof(C)) % kCacheLineBytes == 0; };
    return reinterpret_cast<std::uintptr_t>(of_.c.data) % kCacheLineBytes == 0 && is_line(*of_.c_pitch) && is_line(of_.c.columns[0]) &&
           is_line(of_.c.rows[0]) && std::all_of(of_.c.batch.begin(), of_.c.batch.end(), is_line);
  }

  // Whether sums accumulate in the result itself. Tiles then go back and forth between registers and the L1 cache, in which few lines of a
  // result fit into one set: so this is only done for a short depth.
  bool is_in_place(Range depth) const { return of_.is_in_place() && !is_streamed_ && depth.size() <= kMostInPlace; }

  std::int64_t threads() const { return workers_ == nullptr ? 1 : workers_->threads(); }

  ScratchList<ProductPart> all_tasks() const {
    const auto size = [&](std::int64_t i) { return size_of(i, of_.rows_of(i).size(), of_.columns); };
    return tasks_of(of_, threads(), kGrainWork, size, [&](std::int64_t i) { return strips_of(i); });
  }

  // The number of strips into which the columns of a product of few rows are divided: one per thread, or fewer if they would be short. 0
  // for a product that is computed in blocks.
  std::int64_t strips_of(std::int64_t i) const {
    if (!takes_strips({i, of_.rows_of(i), {0, of_.columns}})) return 0;
    return std::clamp<std::int64_t>(of_.columns / kFewestInStrip, 1, threads());
  }

  // Whether a part is computed in strips: it has few rows, and the columns of b are contiguous.
  bool takes_strips(const ProductPart& part) const {
    return part.rows.size() <= TileStrip::kMostRows && of_.b_columns_contiguous && of_.b_pitch && of_.depth_of(part.i).size() > 0;
  }

  void run_strips(const Room& mine, const ProductPart& task, const bfloat16* next) const {
    const Range depth = of_.depth_of(task.i);
    const std::int64_t rows = task.rows.size();
    auto* const a = reinterpret_cast<float*>(mine.panels);
    for (std::int64_t column = task.columns.begin; column < task.columns.end; column += kStripColumns) {
      const ProductPart part{task.i, task.rows, {column, std::min(column + kStripColumns, task.columns.end)}};
      const bool is_last = part.columns.end == task.columns.end;
      if (of_.options.add)
        of_.load_result(part, mine.sums, kStripColumns);
      else std::fill_n(mine.sums, rows * kStripColumns, 0.0f);
      for (std::int64_t begin = depth.begin; begin < depth.end; begin += kStripDepth) {
        const Range chunk{begin, std::min(begin + kStripDepth, depth.end)};
        for (std::int64_t p = chunk.begin; p < chunk.end; ++p) {
          for (std::int64_t i = 0; i < rows; ++i) a[(p - begin) * rows + i] = load(*of_.element_of_a(task.i, task.rows.begin + i, p));
        }
        const bfloat16* const b = of_.element_of_b(task.i, begin, column);
        const bfloat16* after = chunk.end < depth.end ? of_.element_of_b(task.i, chunk.end, column) : next;
        if (chunk.end == depth.end && !is_last) after = of_.element_of_b(task.i, depth.begin, part.columns.end);
        multiply_tile_strip({chunk.size(), rows, part.columns.size(), a, b, *of_.b_pitch, after == nullptr ? b : after, mine.sums,
                             kStripColumns});
      }
      of_.write_back(kIsa, part, mine.sums, kStripColumns);
    }
  }

  ProductSize size_of(std::int64_t i, std::int64_t rows, std::int64_t columns) const {
    return {.rows = rows,
            .columns = columns,
            .depth = of_.depth_of(i).size(),
            .block_rows = kBlock,
            .block_columns = kBlock,
            .pack_row = of_.a_depth_contiguous ? kPackRun : kPackRow,
            .pack_column = of_.b_columns_contiguous ? kPackColumn : kPackTransposed,
            .begin = kBegin,
            .share = kShare};
  }

  // Depth that is packed at a time.
  std::int64_t chunk_of(const ProductPart& task) const {
    const std::int64_t depth = of_.depth_of(task.i).size();
    const std::int64_t chunks = std::max<std::int64_t>(1, (depth + kChunk / 2) / kChunk);
    return std::max(kTileDepth, round_up(divide_up(depth, chunks), kTileDepth));
  }

  // The number of parts in which columns are packed. Several of them leave more of the L2 cache to the rows that each of them meets.
  static std::int64_t parts_of(std::int64_t columns, std::int64_t chunk) {
    const std::int64_t room = kPanelElements / (chunk + kPad);
    return columns <= round_down(room, kBlock) ? 1 : divide_up(columns, round_down(room * 7 / 8, kBlock));
  }

  // Rows that meet several parts of the columns and are not read in place are packed once, if there is room for all of them. Those that
  // must be transposed go in bands, for which there is room.
  void run_task(const Room& mine, const ProductPart& task, TilePipeline& pipeline) const {
    if (is_of_few_rows(task)) {
      pipeline.finish();
      return run_few_rows(mine, task);
    }
    if (is_held(task)) return run_held(mine, task, pipeline);
    const std::int64_t chunk = chunk_of(task), parts = parts_of(task.columns.size(), chunk);
    const std::int64_t depth_room = std::max(kTileDepth, round_up(of_.depth_of(task.i).size(), kTileDepth));
    const std::int64_t rows_that_stay = parts > 1 ? round_down(Room::kRows / depth_room, kBlock) : 0;
    const bool has_bands = !of_.a_depth_contiguous && rows_that_stay >= kFewestInBand;
    const std::int64_t bands = has_bands ? divide_up(task.rows.size(), rows_that_stay) : 1;
    for (std::int64_t band = 0; band < bands; ++band) {
      const Range rows = within(task.rows, piece_of(task.rows.size(), kBlock, bands, band));
      const bool rows_stay = rows.size() <= rows_that_stay;
      for (std::int64_t part = 0; part < parts; ++part) {
        const Range columns = within(task.columns, piece_of(task.columns.size(), kBlock, parts, part));
        run_part(mine, {task.i, rows, columns}, chunk, {mine.rows, rows_stay, rows_stay && part > 0}, pipeline);
      }
    }
  }

  // Whether the L1 cache holds all rows of a part, beside a panel and sums.
  bool is_held(const ProductPart& task) const {
    const std::int64_t depth = of_.depth_of(task.i).size();
    return depth > 0 && !of_.options.add && !is_streamed_ && of_.c_pitch && (task.rows.size() + kBlock) * depth <= kHeld;
  }

  // One panel at a time is packed, always at the same place, and meets all rows.
  void run_held(const Room& mine, const ProductPart& task, TilePipeline& pipeline) const {
    const Range depth = of_.depth_of(task.i);
    const std::int64_t depth_room = round_up(depth.size(), kTileDepth);
    const Packer<bfloat16, bfloat16> pack_rows(kIsa, kernels_, depth_room), pack_columns(kIsa, kernels_, depth_room + kPad);
    const bool rows_lie = task.rows.size() % kTileRows == 0 && may_lie(depth, task.rows.size());
    if (!rows_lie) pack_rows.rows(of_.lines_of_a(task.i), task.rows, depth, kBlock, mine.rows);
    TileBlock block;
    block.steps = depth_room / kTileDepth;
    block.a_pitch = rows_lie ? *of_.a_pitch : kTileDepth;
    block.a_below = kTileRows * (rows_lie ? block.a_pitch : depth_room);
    block.a_step = rows_lie ? kTileDepth : kTileRows * kTileDepth;
    block.b = mine.panels;
    block.c_pitch = kBlock;
    for (std::int64_t column = task.columns.begin; column < task.columns.end; column += kBlock) {
      const Range columns{column, std::min(column + kBlock, task.columns.end)};
      pack_columns.columns(of_.lines_of_b(task.i), columns, depth, mine.panels);
      block.column_tiles = divide_up(columns.size(), kTileColumns);
      block.a = rows_lie ? of_.element_of_a(task.i, task.rows.begin, depth.begin) : mine.rows;
      C* to = of_.first_of({task.i, task.rows, columns});
      for (std::int64_t row = task.rows.begin; row < task.rows.end; row += kBlock) {
        const std::int64_t rows = std::min(kBlock, task.rows.end - row);
        block.row_tiles = divide_up(rows, kTileRows);
        block.c = pipeline.place();
        pipeline.multiply(block);
        store_last(rows, columns.size(), to, pipeline);
        block.a += 2 * block.a_below;
        to += kBlock * *of_.c_pitch;
      }
    }
  }

  bool is_of_few_rows(const ProductPart& task) const {
    return task.rows.size() <= kFewRows && of_.b_columns_contiguous && of_.depth_of(task.i).size() > 0;
  }

  // Packing b takes most of the time then, and storing it into the L2 cache most of that. So b goes in pieces of a few lines, which are
  // multiplied while they are in the L1 cache. The sums of all columns wait.
  void run_few_rows(const Room& mine, const ProductPart& task) const {
    const Range depth = of_.depth_of(task.i);
    const bool are_in_one_tile = task.rows.size() <= kTileRows;
    if (are_in_one_tile) shape_tiles_of_few(task.rows.size());
    constexpr std::int64_t kMostColumns = kSumElements / kBlock;
    for (std::int64_t first = task.columns.begin; first < task.columns.end; first += kMostColumns) {
      const ProductPart part{task.i, task.rows, {first, std::min(first + kMostColumns, task.columns.end)}};
      if (of_.options.add) {
        for_pieces(part, kBlock, mine.sums, [&](const ProductPart& panel, float* sums) { of_.load_result(panel, sums, kBlock); });
      }
      for (std::int64_t begin = depth.begin; begin < depth.end; begin += kFewDepth) {
        run_lines(mine, part, {begin, std::min(begin + kFewDepth, depth.end)});
      }
      for_pieces(part, kBlock, mine.sums, [&](const ProductPart& panel, const float* sums) { of_.write_back(kIsa, panel, sums, kBlock); });
    }
    if (are_in_one_tile) shape_tiles();
  }

  void run_lines(const Room& mine, const ProductPart& part, Range lines) const {
    constexpr std::int64_t kDepthRoom = kFewDepth + kPad;
    const Packer<bfloat16, bfloat16> pack_rows(kIsa, kernels_, kFewDepth), pack_columns(kIsa, kernels_, kDepthRoom);
    pack_rows.rows(of_.lines_of_a(part.i), part.rows, lines, kBlock, mine.rows);
    TileBlock block;
    block.row_tiles = divide_up(part.rows.size(), kTileRows);
    block.steps = divide_up(lines.size(), kTileDepth);
    block.a = mine.rows;
    block.a_pitch = kTileDepth;
    block.a_below = kTileRows * kFewDepth;
    block.a_step = kTileRows * kTileDepth;
    block.b = mine.panels;
    block.c_pitch = kBlock;
    block.add = of_.options.add || lines.begin > of_.depth_of(part.i).begin;
    for_pieces(part, kFewColumns, mine.sums, [&](const ProductPart& piece, float* sums) {
      pack_columns.columns(of_.lines_of_b(part.i), piece.columns, lines, mine.panels);
      block.c = sums;
      multiply_panels(block, divide_up(piece.columns.size(), kBlock), kBlock * kDepthRoom, sums_of_panel(part));
    });
  }

  static std::int64_t sums_of_panel(const ProductPart& part) {
    return (part.rows.size() <= kTileRows ? part.rows.size() : kBlock) * kBlock;
  }

  // Calls call(piece, its sums) for pieces of so many columns.
  template <typename Call>
  static void for_pieces(const ProductPart& part, std::int64_t columns, float* sums, const Call& call) {
    for (std::int64_t column = part.columns.begin; column < part.columns.end; column += columns) {
      call(ProductPart{part.i, part.rows, {column, std::min(column + columns, part.columns.end)}}, sums);
      sums += columns / kBlock * sums_of_panel(part);
    }
  }

  // Where packed rows of a are: those that are multiplied with a panel at a time, or, if they stay, all that are multiplied with a part of
  // the columns, for the next part.
  struct RowsOfA {
    bfloat16* first;
    bool stay;
    bool are_there;
  };

  void run_part(const Room& mine, const ProductPart& part, std::int64_t chunk, const RowsOfA& of_part, TilePipeline& pipeline) const {
    const Range depth = of_.depth_of(part.i);
    const std::int64_t most_rows = kSumElements / round_up(part.columns.size(), kBlock);
    const std::int64_t bands = depth.size() > chunk && !is_in_place(depth) ? divide_up(part.rows.size(), round_down(most_rows, kBlock)) : 1;
    for (std::int64_t band = 0; band < bands; ++band) {
      const Range rows = piece_of(part.rows.size(), kBlock, bands, band);
      for (std::int64_t begin = depth.begin; begin == depth.begin || begin < depth.end; begin += chunk) {
        const Range of_chunk{begin, std::min(begin + chunk, depth.end)};
        RowsOfA packed = of_part;
        if (packed.stay) {
          packed.first += (begin - depth.begin) * round_up(part.rows.size(), kBlock) + rows.begin * round_up(of_chunk.size(), kTileDepth);
        }
        run_chunk(mine, {part.i, within(part.rows, rows), part.columns}, of_chunk, packed, pipeline);
      }
    }
  }

  static Range within(Range all, Range piece) { return {all.begin + piece.begin, all.begin + piece.end}; }

  // Packs the panels of a part, and rows a few at a time, which then meet all panels.
  void run_chunk(const Room& mine, const ProductPart& piece, Range chunk, const RowsOfA& packed, TilePipeline& pipeline) const {
    const std::int64_t depth_room = round_up(chunk.size(), kTileDepth);
    const Packer<bfloat16, bfloat16> packer(kIsa, kernels_, depth_room);
    Packer<bfloat16, bfloat16>(kIsa, kernels_, depth_room + kPad).columns(of_.lines_of_b(piece.i), piece.columns, chunk, mine.panels);
    const bool rows_lie = may_lie(chunk, a_passes(piece) ? 0 : kBlock);
    for (std::int64_t row = piece.rows.begin; row < piece.rows.end; row += kRowsTogether) {
      const Range rows{row, std::min(row + kRowsTogether, piece.rows.end)};
      const std::int64_t lying = !rows_lie ? 0 : rows.size() % kTileRows == 0 ? rows.size() : round_down(rows.size(), kBlock);
      bfloat16* const to = packed.first + (packed.stay ? row - piece.rows.begin : 0) * depth_room;
      if (!packed.are_there) packer.rows(of_.lines_of_a(piece.i), {rows.begin + lying, rows.end}, chunk, kBlock, to + lying * depth_room);
      for (std::int64_t first = 0; first < rows.size(); first += kBlock) {
        const Range of_block{row + first, std::min(row + first + kBlock, rows.end)};
        const bfloat16* const of_rows = to + first * depth_room;
        const bfloat16* next = nullptr;
        if (of_block.end < piece.rows.end) {
          if (rows_lie && !a_passes(piece)) next = of_.element_of_a(piece.i, of_block.end, chunk.begin);
          if (!rows_lie && packed.are_there) next = of_rows + kBlock * depth_room;
        }
        run_rows(mine, piece, of_block, chunk, {first < lying ? nullptr : of_rows, next}, pipeline);
      }
    }
  }

  // Whether rows are read in place: each is contiguous, and the L1 cache holds those that are read again and again.
  bool may_lie(Range chunk, std::int64_t rows_that_stay) const {
    if (!of_.a_depth_contiguous || !of_.a_pitch || chunk.size() == 0 || chunk.size() % kTileDepth != 0) return false;
    constexpr auto kBytes = static_cast<std::int64_t>(sizeof(bfloat16));
    return rows_that_stay <= rows_in_l1(depth_of_piece(chunk) * kBytes, *of_.a_pitch * kBytes);
  }

  // A single panel stays in the L1 cache, and rows pass by. Otherwise rows stay there, and panels pass by, unless it holds these too.
  static bool a_passes(const ProductPart& piece) { return piece.columns.size() <= kBlock; }
  static TilePassing passing(const ProductPart& piece, Range chunk) {
    if (a_passes(piece)) return TilePassing::a;
    return (piece.columns.size() + kBlock) * chunk.size() <= kHeld ? TilePassing::none : TilePassing::b;
  }

  // A chunk goes in pieces of which the L1 cache holds a block of rows.
  static std::int64_t depth_of_piece(Range chunk) {
    const std::int64_t pieces = std::max<std::int64_t>(1, divide_up(chunk.size(), kPiece));
    return std::max(kTileDepth, round_up(divide_up(chunk.size(), pieces), kTileDepth));
  }

  struct RowsOfBlock {
    const bfloat16* packed;  // null if they are read in place
    const bfloat16* next;    // those of the next block, which lie likewise, if they are fetched meanwhile
  };

  // What is fetched of the next block's rows, at a piece that begins at `depth`, beside one of the panels: each of them has its share.
  LinesAhead part_of_next(const RowsOfBlock& of_rows, std::int64_t depth, std::int64_t steps, std::int64_t panel,
                          std::int64_t panels) const {
    constexpr auto kElement = static_cast<std::int64_t>(sizeof(bfloat16));
    const std::int64_t share = divide_up(kBlock, panels), before = panel * share;
    const std::int64_t lines = std::clamp<std::int64_t>(kBlock - before, 0, share);
    const auto from = [&](std::int64_t elements) { return reinterpret_cast<const std::byte*>(of_rows.next + elements); };
    if (of_rows.packed == nullptr) {
      return {.first = from(depth + before * *of_.a_pitch), .lines = lines, .pitch = *of_.a_pitch * kElement, .step = kCacheLineBytes};
    }
    const std::int64_t steps_before = depth / kTileDepth * kBlock + before * steps;
    return {.first = from(steps_before * kTileDepth), .lines = lines, .pitch = kCacheLineBytes, .step = lines * kCacheLineBytes};
  }

  // Multiplies a block of rows with all panels.
  void run_rows(const Room& mine, const ProductPart& piece, Range rows, Range chunk, const RowsOfBlock& of_rows,
                TilePipeline& pipeline) const {
    const bfloat16* const packed = of_rows.packed;
    const Range depth = of_.depth_of(piece.i);
    const std::int64_t depth_room = round_up(chunk.size(), kTileDepth), of_piece = depth_of_piece(chunk);
    const std::int64_t panels = divide_up(piece.columns.size(), kBlock);
    // Sums that are not made in the result itself wait for those of the next piece and, if they cannot be added to it, of the next chunk.
    const bool in_place = is_in_place(depth), is_deep = !in_place && chunk.size() < depth.size();
    const bool wait = is_deep || of_piece < chunk.size();
    TileBlock block;
    block.row_tiles = divide_up(rows.size(), kTileRows);
    block.passing = passing(piece, chunk);
    block.a_pitch = packed == nullptr ? *of_.a_pitch : kTileDepth;
    block.a_below = packed == nullptr ? kTileRows * block.a_pitch : kTileRows * depth_room;
    block.a_step = packed == nullptr ? kTileDepth : kTileRows * kTileDepth;
    for (std::int64_t begin = chunk.begin; begin == chunk.begin || begin < chunk.end; begin += of_piece) {
      const std::int64_t steps_before = (begin - chunk.begin) / kTileDepth;
      const Range waits_in = is_deep ? depth : chunk;
      const bool is_first = begin == waits_in.begin, is_last = std::min(begin + of_piece, chunk.end) == waits_in.end;
      block.steps = divide_up(std::min(of_piece, chunk.end - begin), kTileDepth);
      block.a = packed == nullptr ? of_.element_of_a(piece.i, rows.begin, begin) : packed + steps_before * block.a_step;
      block.add = of_.options.add || begin > depth.begin;
      for (std::int64_t panel = 0; panel < panels; ++panel) {
        const std::int64_t column = piece.columns.begin + panel * kBlock;
        const ProductPart part{piece.i, rows, {column, std::min(column + kBlock, piece.columns.end)}};
        const std::int64_t width = part.columns.size(), place = (is_deep ? (rows.begin - piece.rows.begin) / kBlock * panels : 0) + panel;
        const bool is_result = in_place && rows.size() % kTileRows == 0 && width % kTileColumns == 0;
        block.b = mine.panels + panel * kBlock * (depth_room + kPad) + steps_before * kTileDepth * kBlock;
        block.c = wait ? mine.sums + place * kBlockElements : pipeline.place();
        block.next_c = wait ? block.c + kBlockElements : nullptr;
        block.c_pitch = kBlock;
        if constexpr (std::is_same_v<C, float>) {
          if (is_result) {
            block.c = of_.first_of(part);
            block.next_c = block.c + kBlock;
          }
        }
        if (is_result) block.c_pitch = *of_.c_pitch;
        else pipeline.make_room(block);
        if (!is_result && block.add && is_first) of_.load_result(part, block.c, kBlock);
        block.column_tiles = divide_up(width, kTileColumns);
        if (of_rows.next != nullptr) block.ahead = part_of_next(of_rows, begin - chunk.begin, block.steps, panel, panels);
        pipeline.multiply(block);
        if (is_result || !is_last) continue;
        if (of_.c_pitch) {
          store_last(rows.size(), width, of_.first_of(part), pipeline);
        } else {
          pipeline.empty_tiles();
          of_.write_back(kIsa, part, block.c, kBlock);
        }
      }
    }
  }

  void store_last(std::int64_t rows, std::int64_t columns, C* to, TilePipeline& pipeline) const {
    using enum TilePipeline::As;
    const bool streams = is_streamed_ && columns == kBlock;
    constexpr bool kRounds = std::is_same_v<C, moesh::bfloat16>;
    pipeline.store_last(rows, columns, kRounds ? (streams ? streamed_bfloat16 : bfloat16) : (streams ? streamed_float32 : float32),
                        reinterpret_cast<std::byte*>(to), *of_.c_pitch * static_cast<std::int64_t>(sizeof(C)));
  }

  Workers* workers_;
  ProductOperands<bfloat16, bfloat16, C> of_;
  bool is_streamed_;
  const MicroKernels<bfloat16>& kernels_;
};

}  // namespace

template <typename C>
void multiply_in_tiles(Workers* workers, const Matrices<const bfloat16>& a, const Matrices<const bfloat16>& b, const Matrices<C>& c,
                       const MultiplyOptions& options) {
  TileProduct<C>(workers, a, b, c, options).run();
}

#define MOESH_MULTIPLY(C)                                                                                                            \
  template void multiply_in_tiles(Workers*, const Matrices<const bfloat16>&, const Matrices<const bfloat16>&, const Matrices<C>&, \
                                  const MultiplyOptions&)
MOESH_MULTIPLY(float);
MOESH_MULTIPLY(bfloat16);
#undef MOESH_MULTIPLY
#endif

}  // namespace moesh::backend::cpu
