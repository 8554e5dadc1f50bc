// Attention, for several panels of queries at a time. Keys are processed in blocks, with an online softmax per column, so that memory does
// not grow with the number of keys.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "backend/cpu/attention_panel.h"
#include "backend/cpu/attention_step.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/scratch.h"
#include "backend/cpu/simd.h"
#include "backend/cpu/workspace.h"
#include "backend/scratch_list.h"

namespace moesh::backend::cpu {
namespace {

constexpr std::int64_t kKeyBlock = 224;      // keys: whole blocks of rows of most micro-kernels, and whole steps of all
constexpr std::int64_t kPanelsOfTask = 16;   // panels of queries that share the packed keys of a block
constexpr std::int64_t kTasksPerThread = 4;  // so that threads finish together
constexpr std::int64_t kHeadsTogether = 16;  // whose highest scores one task finds

// Memory of one thread. Scores are GEMMs of operands packed as S; results are GEMMs of operands packed as E.
template <typename T, typename S, typename E>
struct Memory {
  using W = Wide<T>;

  Memory(Pieces pieces, Isa isa, const AttentionShape& shape)
      : of_scores(micro_kernels<S>(isa)),
        of_results(micro_kernels<E>(isa)),
        keys(of_scores, shape.dim),
        values(of_results, kKeyBlock, evened(of_results, of_results.rows, shape.value_dim)),
        columns(of_scores.columns),
        query_size(columns * round_up(shape.dim, of_scores.depth_step)),
        result_size(columns * round_up(shape.value_dim, 2 * kTileRows)) {
    keys.set(pieces.take<S>(keys.size(kKeyBlock)));
    values.set(pieces.take<E>(values.size(shape.value_dim)));
    queries = pieces.take<S>(kPanelsOfTask * query_size);
    scores = pieces.take<W>(columns * (kKeyBlock + kTileRows));
    if constexpr (std::is_same_v<E, W>) {
      exponentials = scores;
    } else {
      exponentials = pieces.take<E>(columns * (kKeyBlock + kTileDepth));
      packed = pieces.take<E>(columns * (kKeyBlock + kTileDepth));
    }
    results = pieces.take<W>(kPanelsOfTask * result_size);
    largest = pieces.take<W>(kPanelsOfTask * AttentionPanel<T>::kMostColumns);
    sums = pieces.take<W>(kPanelsOfTask * AttentionPanel<T>::kMostColumns);
    bytes = pieces.bytes();
  }

  const MicroKernels<S>& of_scores;
  const MicroKernels<E>& of_results;
  LeftRows<S> keys;    // [key][D]
  LeftRows<E> values;  // [value dim][key]
  std::int64_t columns, query_size, result_size;
  S* queries;           // panels [D][column]
  W* scores;            // [key][column]
  E* exponentials;      // exponentials of the scores, [key][column]
  E* packed = nullptr;  // the exponentials as a packed panel
  W* results;           // [value dim][column] of each panel
  W* largest;           // largest score of each panel's columns
  W* sums;
  std::int64_t bytes;
};

template <typename T, typename S, typename E>
class Attention {
  using W = Wide<T>;
  using Panel = AttentionPanel<T>;
  static constexpr std::int64_t kStats = Panel::kMostColumns;

 public:
  Attention(const KernelCall& call, Isa isa)
      : isa_(isa),
        in_(std::get<graph::AttentionOf>(call.attributes), call.operands),
        shape_(in_.shape),
        out_(call.results[0].as<T>()),
        highest_(call.results.size() > 1 ? call.results[1].as<float>() : nullptr),
        columns_(micro_kernels<S>(isa).columns) {}

  // The last columns see the most keys, so they are started first.
  void run(Workers& workers) const {
    const std::int64_t panels = divide_up(shape_.columns(), columns_), pairs = shape_.rows * shape_.key_heads;
    const std::int64_t of_task = std::clamp<std::int64_t>(panels * pairs / (kTasksPerThread * workers.threads()), 1, kPanelsOfTask);
    const std::int64_t blocks = divide_up(panels, of_task);
    workers.parallel(pairs * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t pair = task % pairs, first = (blocks - 1 - task / pairs) * of_task * columns_;
        run_task(pair / shape_.key_heads, pair % shape_.key_heads, {first, std::min(first + of_task * columns_, shape_.columns())});
      }
    });
  }

 private:
  static Memory<T, S, E> memory_of_thread(Isa isa, const AttentionShape& shape) {
    thread_local Scratch mine;
    return {Pieces(mine.of<std::byte>(Memory<T, S, E>(Pieces(nullptr), isa, shape).bytes)), isa, shape};
  }

  void run_task(std::int64_t row, std::int64_t key_head, Range columns) const {
    Memory<T, S, E> memory = memory_of_thread(isa_, shape_);
    const KernelsInUse in_use(memory.of_scores);
    ScratchList<Panel> panels;
    for (std::int64_t first = columns.begin; first < columns.end; first += columns_) {
      panels.emplace_back(in_, row, key_head, first, std::min(columns_, columns.end - first));
    }
    Range keys{shape_.keys, 0};
    for (std::size_t p = 0; p < panels.size(); ++p) {
      begin_panel(memory, panels[p], static_cast<std::int64_t>(p));
      keys = {std::min(keys.begin, panels[p].keys().begin), std::max(keys.end, panels[p].keys().end)};
    }
    for (std::int64_t block = round_down(keys.begin, kKeyBlock); block < keys.end; block += kKeyBlock) {
      const Range of_block{block, std::min(block + kKeyBlock, keys.end)};
      if (std::none_of(panels.begin(), panels.end(), [&](const Panel& panel) { return panel.sees_any(of_block); })) continue;
      lay_block(memory, row, key_head, of_block);
      for (std::size_t p = 0; p < panels.size(); ++p) attend(memory, panels[p], static_cast<std::int64_t>(p), of_block);
    }
    for (std::size_t p = 0; p < panels.size(); ++p) write_back(memory, panels[p], static_cast<std::int64_t>(p));
  }

  void begin_panel(const Memory<T, S, E>& memory, const Panel& panel, std::int64_t p) const {
    const OffsetList heads = panel.offsets(shape_.dim), dims = steps(shape_.dim, 1);
    Packer<S, T>(isa_, memory.of_scores, memory.query_size / columns_)
        .columns({in_.query, heads, dims, false, true}, {0, panel.count()}, {0, shape_.dim}, memory.queries + p * memory.query_size);
    panel.begin_softmax(memory.largest + p * kStats, memory.sums + p * kStats);
    std::fill_n(memory.results + p * memory.result_size, memory.result_size, W(0));
  }

  void lay_block(Memory<T, S, E>& memory, std::int64_t row, std::int64_t key_head, Range keys) const {
    const OffsetList key_rows = in_.key_offsets(keys.size()), value_rows = in_.value_offsets(keys.size());
    const OffsetList dims = steps(shape_.dim, 1), value_dims = steps(shape_.value_dim, 1);
    memory.keys.take_or_pack(isa_, Lines<T>{in_.key_at(row, key_head, keys.begin), key_rows, dims, false, true});
    memory.values.take_or_pack(isa_, Lines<T>{in_.value_at(row, key_head, keys.begin), value_dims, value_rows, true, false});
  }

  void attend(const Memory<T, S, E>& memory, const Panel& panel, std::int64_t p, Range block) const {
    const Range seen{std::max(panel.keys().begin, block.begin), std::min(panel.keys().end, block.end)};
    if (!panel.sees_any(seen)) return;
    const bool is_narrow = panel.count() <= columns_ / 2;
    const Range rows{round_down(seen.begin - block.begin, memory.of_scores.rows), seen.end - block.begin};
    memory.keys.multiply(rows, {0, shape_.dim}, memory.queries + p * memory.query_size, is_narrow, false, memory.scores, columns_);
    W* const result = memory.results + p * memory.result_size;
    soften(memory, panel, p, {block.begin + rows.begin, seen.end});
    const std::int64_t padded = round_up(rows.size(), memory.of_results.depth_step);
    std::fill(memory.exponentials + rows.size() * columns_, memory.exponentials + padded * columns_, E());
    const E* const panel_of_keys = as_panel(isa_, memory.of_results, memory.exponentials, padded, memory.packed);
    memory.values.multiply({0, shape_.value_dim}, {rows.begin, rows.begin + padded}, panel_of_keys, is_narrow, true, result, columns_);
  }

  void soften(const Memory<T, S, E>& memory, const Panel& panel, std::int64_t p, Range keys) const {
    W* const result = memory.results + p * memory.result_size;
    with_columns(columns_, [&]<int kColumns>() {
      W shrink[kColumns];
      if (!panel.template soften<kColumns>(isa_, keys, memory.scores, memory.exponentials, memory.largest + p * kStats,
                                           memory.sums + p * kStats, shrink)) {
        return;
      }
      vectorised(isa_, [&]() MOESH_LOOP {
        for (std::int64_t v = 0; v < shape_.value_dim; ++v) {
          for (int j = 0; j < kColumns; ++j) result[v * kColumns + j] *= shrink[j];
        }
      });
    });
  }

  void write_back(const Memory<T, S, E>& memory, const Panel& panel, std::int64_t p) const {
    W shares[Panel::kMostColumns];
    const W* const sums = memory.sums + p * kStats;
    for (std::int64_t j = 0; j < panel.count(); ++j) shares[j] = sums[j] > 0 ? 1 / sums[j] : W(0);
    panel.write_back(isa_, memory.results + p * memory.result_size, columns_, shape_.value_dim, shares, out_);
    if (highest_ != nullptr) panel.write_highest(memory.largest + p * kStats, highest_);
  }

  Isa isa_;
  AttentionInputs<T> in_;
  const AttentionShape& shape_;
  T* out_;
  float* highest_;  // [B][S][H]; null if nobody asks
  std::int64_t columns_;
};

}  // namespace

std::int64_t attention_bytes(const Shape& query, const Shape& key, const Shape& value) {
  const AttentionShape shape = attention_shape(query, key, value);
  if (is_attention_step(shape)) return 0;
  return most_bytes([&]<typename T, typename S, typename E>(Isa isa) { return Memory<T, S, E>(Pieces(nullptr), isa, shape).bytes; });
}

void attention(const KernelCall& call) {
  const std::span<const View> in = call.operands;
  if (is_attention_step(attention_shape(in[0].shape, in[1].shape, in[2].shape))) return attention_step(call);
  run_in_types<Attention>(call);
}

void highest(const KernelCall& call) {
  const View &from = call.operands[0], &to = call.results[0];
  const std::int64_t rows = from.size(0) / to.size(0), columns = from.size(1) / to.size(1), width = from.size(2);
  const std::int64_t parts = divide_up(width, kHeadsTogether), pieces = to.size(0) * to.size(1);
  const Isa isa = chosen_isa();
  for_floating(from.dtype, [&]<typename T>() {
    call.workers.parallel(pieces * parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t piece = task / parts, first = task % parts * kHeadsTogether, count = std::min(kHeadsTogether, width - first);
        Wide<T> most[kHeadsTogether];
        std::fill_n(most, kHeadsTogether, -std::numeric_limits<Wide<T>>::infinity());
        for (std::int64_t row = piece / to.size(1) * rows; row < (piece / to.size(1) + 1) * rows; ++row) {
          const T* x = from.as<T>() + (row * from.size(1) + piece % to.size(1) * columns) * width + first;
          vectorised(isa, [&]() MOESH_LOOP {
            for (std::int64_t column = 0; column < columns; ++column, x += width) {
              for (std::int64_t i = 0; i < count; ++i) most[i] = std::max(most[i], load(x[i]));
            }
          });
        }
        for (std::int64_t i = 0; i < count; ++i) to.as<T>()[piece * width + first + i] = store<T>(most[i]);
      }
    });
  });
}

}  // namespace moesh::backend::cpu
