// The gradients of attention. A task has one row of the batch and one key head, and goes over its panels of queries in order; each panel
// recomputes its probabilities. With P = E / sum: dV = P' dO, dP = dO V', dS = P (dP - sum over keys of P dP), dQ = dS K, dK = dS' Q.
// Scores, and everything of their shape, are [key][column].
#include <algorithm>
#include <type_traits>

#include "backend/cpu/attention_panel.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/scratch.h"
#include "backend/cpu/simd.h"
#include "backend/cpu/workspace.h"
#include "backend/scratch_list.h"

namespace moesh::backend::cpu {
namespace {

// Memory of one thread. Scores and gradients of probabilities are GEMMs of operands packed as S, the other GEMMs take operands packed as E.
// There is room for all keys: for what is packed once for all panels, for the gradients to which all panels add, and for the probabilities
// of a panel.
template <typename T, typename S, typename E>
struct Memory {
  using W = Wide<T>;
  static constexpr bool kPacksProbabilities = !std::is_same_v<E, W>;

  Memory(Pieces pieces, Isa isa, const AttentionShape& shape, bool has_soft_cap)
      : of_scores(micro_kernels<S>(isa)),
        of_results(micro_kernels<E>(isa)),
        columns(of_scores.columns),
        width(round_up(shape.dim, columns)),
        value_width(round_up(shape.value_dim, columns)),
        keys(of_scores, shape.dim),
        values(of_scores, shape.value_dim),
        transposed_keys(of_results, shape.keys, evened(of_results, of_results.rows, shape.dim)) {
    const std::int64_t all = round_up(shape.keys, 2 * kTileRows) + 2 * kTileRows;
    keys.set(pieces.take<S>(keys.size(shape.keys)));
    values.set(pieces.take<S>(values.size(shape.keys)));
    transposed_keys.set(pieces.take<E>(transposed_keys.size(shape.dim)));
    queries = pieces.take<S>(columns * round_up(shape.dim, of_scores.depth_step));
    gradients = pieces.take<S>(columns * round_up(shape.value_dim, of_scores.depth_step));
    const std::int64_t depth = round_up(columns, of_results.depth_step);
    transposed_queries = pieces.take<E>(width * depth);
    transposed_gradients = pieces.take<E>(value_width * depth);
    probabilities = pieces.take<W>(all * columns);
    dscores = pieces.take<W>(all * columns);
    slopes = has_soft_cap ? pieces.take<W>(all * columns) : nullptr;
    if constexpr (kPacksProbabilities) {
      rounded_probabilities = pieces.take<E>(all * columns);
      rounded_dscores = pieces.take<E>(all * columns);
      packed = pieces.take<E>(all * columns);
    }
    dquery = pieces.take<W>(round_up(shape.dim, 2 * kTileRows) * columns);
    dkey = pieces.take<W>(all * width);
    dvalue = pieces.take<W>(all * value_width);
    bytes = pieces.bytes();
  }

  const MicroKernels<S>& of_scores;
  const MicroKernels<E>& of_results;
  std::int64_t columns, width, value_width;
  LeftRows<S> keys;         // [key][D]
  LeftRows<S> values;       // [key][V]
  LeftRows<E> transposed_keys;  // [D][key]
  S* queries;               // packed panel [D][column]
  S* gradients;             // packed panel [V][column] of the gradients of the results
  E* transposed_queries;    // packed panels [column][D]
  E* transposed_gradients;  // packed panels [column][V]
  W* probabilities;
  W* dscores;
  W* slopes;
  E* rounded_probabilities = nullptr;
  E* rounded_dscores = nullptr;
  E* packed = nullptr;  // dscores as a packed panel
  W* dquery;            // [D][column]
  W* dkey;              // [key][width]
  W* dvalue;
  std::int64_t bytes;
};

template <typename T, typename S, typename E>
class AttentionGradient {
  using W = Wide<T>;
  using Panel = AttentionPanel<T>;

 public:
  AttentionGradient(const KernelCall& call, Isa isa)
      : isa_(isa),
        in_(std::get<graph::AttentionOf>(call.attributes), call.operands.first(call.operands.size() - 1)),
        shape_(in_.shape),
        dout_(call.operands.back().as<T>()),
        results_(call.results),
        columns_(micro_kernels<S>(isa).columns) {}

  void run(Workers& workers) const {
    ScratchList<W> dsinks(static_cast<std::size_t>(shape_.rows * shape_.heads));  // [B, H]
    workers.parallel(shape_.rows * shape_.key_heads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        run_task(task / shape_.key_heads, task % shape_.key_heads, dsinks.data() + task * shape_.sharing);
      }
    });
    if (results_.size() < 4) return;
    T* result = results_[3].template as<T>();
    for (std::int64_t head = 0; head < shape_.heads; ++head) {
      double sum = 0;
      for (std::int64_t row = 0; row < shape_.rows; ++row) sum += dsinks[static_cast<std::size_t>(row * shape_.heads + head)];
      result[head] = store<T>(sum);
    }
  }

 private:
  static Memory<T, S, E> memory_of_thread(Isa isa, const AttentionInputs<T>& in) {
    thread_local Scratch mine;
    const bool has_soft_cap = in.of.soft_cap > 0;
    return {Pieces(mine.of<std::byte>(Memory<T, S, E>(Pieces(nullptr), isa, in.shape, has_soft_cap).bytes)), isa, in.shape, has_soft_cap};
  }

  // `dsinks`: a contribution to each query head that shares the key head.
  void run_task(std::int64_t row, std::int64_t key_head, W* dsinks) const {
    Memory<T, S, E> memory = memory_of_thread(isa_, in_);
    const KernelsInUse in_use(memory.of_scores);
    lay_keys(memory, row, key_head);
    std::fill_n(memory.dkey, shape_.keys * memory.width, W(0));
    std::fill_n(memory.dvalue, shape_.keys * memory.value_width, W(0));
    for (std::int64_t first = 0; first < shape_.columns(); first += columns_) {
      const Panel panel(in_, row, key_head, first, std::min(columns_, shape_.columns() - first));
      run_panel(memory, panel, dsinks);
    }
    write_back(row, key_head, memory.dkey, memory.width, results_[1]);
    write_back(row, key_head, memory.dvalue, memory.value_width, results_[2]);
  }

  void lay_keys(Memory<T, S, E>& memory, std::int64_t row, std::int64_t key_head) const {
    const OffsetList key_rows = in_.key_offsets(shape_.keys), value_rows = in_.value_offsets(shape_.keys);
    const OffsetList dims = steps(shape_.dim, 1), value_dims = steps(shape_.value_dim, 1);
    const T* const keys = in_.key_at(row, key_head, 0);
    memory.keys.take_or_pack(isa_, Lines<T>{keys, key_rows, dims, false, true});
    memory.transposed_keys.take_or_pack(isa_, Lines<T>{keys, dims, key_rows, true, false});
    memory.values.take_or_pack(isa_, Lines<T>{in_.value_at(row, key_head, 0), value_rows, value_dims, false, true});
  }

  void pack_panel(const Memory<T, S, E>& memory, const Panel& panel) const {
    const auto pack = [&](const T* data, std::int64_t width, S* as_columns, E* as_steps) {
      const OffsetList heads = panel.offsets(width), dims = steps(width, 1);
      const Range columns{0, panel.count()}, of_width{0, width};
      Packer<S, T>(isa_, memory.of_scores, round_up(width, memory.of_scores.depth_step))
          .columns({data, heads, dims, false, true}, columns, of_width, as_columns);
      Packer<E, T>(isa_, memory.of_results, round_up(columns_, memory.of_results.depth_step))
          .columns({data, dims, heads, true, false}, of_width, columns, as_steps);
    };
    pack(in_.query, shape_.dim, memory.queries, memory.transposed_queries);
    pack(dout_, shape_.value_dim, memory.gradients, memory.transposed_gradients);
  }

  void run_panel(const Memory<T, S, E>& memory, const Panel& panel, W* dsinks) const {
    const Range keys{round_down(panel.keys().begin, memory.of_scores.rows), panel.keys().end};
    if (panel.keys().size() == 0) return hand_over_nothing(panel);
    pack_panel(memory, panel);
    const bool is_narrow = panel.count() <= columns_ / 2;
    memory.keys.multiply(keys, {0, shape_.dim}, memory.queries, is_narrow, false, memory.probabilities, columns_);
    memory.values.multiply(keys, {0, shape_.value_dim}, memory.gradients, is_narrow, false, memory.dscores, columns_);
    through_softmax(memory, panel, keys, dsinks);
    // The GEMMs below take whole steps and whole blocks of rows, which are padded with zeros.
    const std::int64_t depth = round_up(keys.size(), memory.of_results.depth_step);
    const std::int64_t padded = std::max(depth, round_up(keys.size(), memory.of_results.rows));
    for (W* const of_keys : {memory.probabilities, memory.dscores}) {
      clear_columns(keys.size(), columns_, panel.count(), of_keys);
      std::fill(of_keys + keys.size() * columns_, of_keys + padded * columns_, W(0));
    }
    const E* const probabilities = in_type(isa_, memory.probabilities, padded * columns_, memory.rounded_probabilities);
    const E* const dscores = in_type(isa_, memory.dscores, padded * columns_, memory.rounded_dscores);
    add_products(memory, panel, probabilities, keys.size(), memory.transposed_gradients, memory.dvalue + keys.begin * memory.value_width,
                 shape_.value_dim, memory.value_width);
    add_products(memory, panel, dscores, keys.size(), memory.transposed_queries, memory.dkey + keys.begin * memory.width, shape_.dim,
                 memory.width);
    const E* const panel_of_keys = as_panel(isa_, memory.of_results, dscores, depth, memory.packed);
    memory.transposed_keys.multiply({0, shape_.dim}, {keys.begin, keys.begin + depth}, panel_of_keys, is_narrow, false, memory.dquery,
                                    columns_);
    panel.write_back(isa_, memory.dquery, columns_, shape_.dim, nullptr, results_[0].template as<T>());
  }

  void hand_over_nothing(const Panel& panel) const {
    T* const dquery = results_[0].template as<T>();
    for (std::int64_t j = 0; j < panel.count(); ++j) std::fill_n(dquery + panel.head(j) * shape_.dim, shape_.dim, T(0));
  }

  // Turns scores into probabilities, and gradients of probabilities into gradients of the scores before they are scaled.
  void through_softmax(const Memory<T, S, E>& memory, const Panel& panel, Range keys, W* dsinks) const {
    with_columns(columns_, [&]<int kColumns>() {
      constexpr int kMost = Panel::kMostColumns;
      W largest[kMost], sums[kMost], base[kColumns], sinks[kColumns], shares[kColumns], means[kColumns];
      panel.begin_softmax(largest, sums);
      std::copy_n(largest, kColumns, sinks);
      panel.template finish_scores<kColumns>(isa_, keys, memory.probabilities, memory.slopes, largest);
      vectorised(isa_, [&]() MOESH_LOOP {
        for (int j = 0; j < kColumns; ++j) {
          base[j] = base_of(largest[j]);
          sinks[j] = exp_of(sinks[j] - base[j]);
          sums[j] = sinks[j];
        }
      });
      exponentiate<kColumns>(isa_, keys.size(), base, memory.probabilities, memory.probabilities, sums);
      for (int j = 0; j < kColumns; ++j) shares[j] = sums[j] > 0 ? 1 / sums[j] : W(0);
      differentiate<kColumns>(memory, keys.size(), shares, means);
      if (in_.sinks == nullptr) return;
      for (std::int64_t j = 0; j < panel.count(); ++j) dsinks[panel.head(j) % shape_.sharing] -= sinks[j] * shares[j] * means[j];
    });
  }

  template <int kColumns>
  void differentiate(const Memory<T, S, E>& memory, std::int64_t keys, const W* shares, W* means) const {
    const W scale = static_cast<W>(in_.of.score_scale);
    vectorised(isa_, [&]() MOESH_LOOP {
      W share[kColumns], mean[kColumns] = {};
      for (int j = 0; j < kColumns; ++j) share[j] = shares[j];
      for (std::int64_t t = 0; t < keys; ++t) {
        W* __restrict p = memory.probabilities + t * kColumns;
        const W* __restrict d = memory.dscores + t * kColumns;
        for (int j = 0; j < kColumns; ++j) {
          p[j] *= share[j];
          mean[j] += p[j] * d[j];
        }
      }
      for (std::int64_t t = 0; t < keys; ++t) {
        const W* __restrict p = memory.probabilities + t * kColumns;
        W* __restrict d = memory.dscores + t * kColumns;
        for (int j = 0; j < kColumns; ++j) d[j] = p[j] * (d[j] - mean[j]) * scale;
      }
      if (memory.slopes != nullptr) {
        for (std::int64_t i = 0; i < keys * kColumns; ++i) memory.dscores[i] *= memory.slopes[i];
      }
      for (int j = 0; j < kColumns; ++j) means[j] = mean[j];
    });
  }

  // to[key][dim] += from[key][column] times the panel's columns [column][dim].
  void add_products(const Memory<T, S, E>& memory, const Panel& panel, const E* from, std::int64_t keys, const E* panels, W* to,
                    std::int64_t dims, std::int64_t pitch) const {
    const MicroKernels<E>& kernels = memory.of_results;
    for (std::int64_t d = 0; d < dims; d += columns_, panels += columns_ * round_up(columns_, kernels.depth_step)) {
      for (std::int64_t key = 0; key < keys; key += kernels.rows) {
        kernels.of_panels({.steps = divide_up(panel.count(), kernels.depth_step),
                           .a = from + key * columns_,
                           .b = panels,
                           .b_pitch = columns_ * MicroKernels<E>::kTogether,
                           .c = to + key * pitch + d,
                           .c_pitch = pitch,
                           .add = true});
      }
    }
  }

  void write_back(std::int64_t row, std::int64_t key_head, const W* from, std::int64_t pitch, const View& result) const {
    const std::int64_t width = result.shape.back();
    vectorised(isa_, [&]() MOESH_LOOP {
      for (std::int64_t t = 0; t < shape_.keys; ++t) {
        const W* __restrict source = from + t * pitch;
        T* __restrict to = result.template as<T>() + in_.at(row, key_head, t) * width;
        for (std::int64_t j = 0; j < width; ++j) to[j] = store<T>(source[j]);
      }
    });
  }

  Isa isa_;
  AttentionInputs<T> in_;
  const AttentionShape& shape_;
  const T* dout_;
  std::span<const View> results_;
  std::int64_t columns_;
};

}  // namespace

std::int64_t attention_grad_bytes(const Shape& query, const Shape& key, const Shape& value) {
  const AttentionShape shape = attention_shape(query, key, value);
  return most_bytes([&]<typename T, typename S, typename E>(Isa isa) { return Memory<T, S, E>(Pieces(nullptr), isa, shape, true).bytes; });
}

void attention_grad(const KernelCall& call) { run_in_types<AttentionGradient>(call); }

}  // namespace moesh::backend::cpu
