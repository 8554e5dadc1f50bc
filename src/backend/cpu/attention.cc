// Attention and its gradient, a block of queries at a time; the gradient forms the probabilities anew.
// Shape suffixes: B rows of the batch, S queries, T keys, H query heads, G key heads, D head dim, V value dim.
#include <algorithm>

#include "backend/cpu/attention_block.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/simd.h"
#include "backend/cpu/workspace.h"
#include "backend/scratch_list.h"

namespace moesh::backend::cpu {
namespace {

constexpr std::int64_t kOnly[] = {0};

// What a thread needs for one block, kept from block to block.
template <typename T>
struct BlockMemory {
  using W = Wide<T>;
  W* scores;                                       // [rows][keys]
  W* slopes;                                       // [rows][keys]; null without a soft cap
  W* dscores;                                      // [rows][keys]; null going forward
  W* out;                                          // [rows][widest dim]
  typename AttentionScores<T>::Row* rows;

  static constexpr std::int64_t kOfKeys = 3;  // numbers for each row and key

  BlockMemory(const AttentionShape& shape, bool capped, bool backward) {
    thread_local Scratch of_keys;
    thread_local Scratch of_dims;
    thread_local Scratch of_rows;
    const std::int64_t count = shape.block_queries * shape.sharing;
    scores = of_keys.of<W>(count * shape.keys * kOfKeys);
    slopes = capped && backward ? scores + count * shape.keys : nullptr;
    dscores = backward ? scores + 2 * count * shape.keys : nullptr;
    out = of_dims.of<W>(count * std::max(shape.dim, shape.value_dim));
    rows = of_rows.of<typename AttentionScores<T>::Row>(count);
  }
};

template <typename T>
void attend_block(Isa isa, const AttentionScores<T>& scores, const AttentionBlock& block, const T* value, T* out) {
  using W = Wide<T>;
  const AttentionShape& shape = scores.shape();
  const BlockMemory<T> memory(shape, false, false);
  scores.exponentials(isa, block, memory.scores, nullptr, memory.rows);
  const std::int64_t count = scores.rows_of(block);
  const OffsetList keys = steps(block.keys, 1), dims = steps(shape.value_dim, 1);
  const OffsetList score_rows = steps(count, block.keys), out_rows = steps(count, shape.value_dim);
  const OffsetList value_rows = scores.key_rows(block, shape.value_dim);
  multiply<W, T, W>(nullptr, isa, {memory.scores, kOnly, score_rows, keys},
                    {value + scores.key_at(block, shape.value_dim), kOnly, value_rows, dims},
                    {memory.out, kOnly, out_rows, dims});
  const OffsetList result_rows = scores.query_rows(block, shape.value_dim);
  for (std::int64_t i = 0; i < count; ++i) {
    const W sum = memory.rows[i].sum;
    const W share = sum > 0 ? 1 / sum : W(0);
    const W* __restrict from = memory.out + i * shape.value_dim;
    T* __restrict to = out + scores.query_at(block, shape.value_dim) + result_rows[static_cast<std::size_t>(i)];
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t j = 0; j < shape.value_dim; ++j) to[j] = store<T>(from[j] * share);
    });
  }
}

template <typename T>
void attention_of(const KernelCall& call) {
  const AttentionScores<T> scores(std::get<graph::AttentionOf>(call.attributes), call.operands);
  const AttentionShape& shape = scores.shape();
  const Isa isa = chosen_isa();
  const T* value = call.operands[2].as<T>();
  T* out = call.results[0].as<T>();
  // The last blocks see most keys: they go first, so that the threads end together.
  const std::int64_t of_row = shape.key_heads * shape.blocks;
  call.workers.parallel(shape.rows * of_row, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t index = shape.blocks - 1 - task % of_row / shape.key_heads;
      attend_block(isa, scores, scores.block(task / of_row, task % shape.key_heads, index), value, out);
    }
  });
}

// The gradients that one row of the batch and one key head give, over its blocks of queries in order.
// With P = E / sum: dV = P' dO, dP = dO V', dS = P (dP - sum over keys of P dP), dQ = dS K, dK = dS' Q.
template <typename T>
class AttentionGradient {
  using W = Wide<T>;

 public:
  AttentionGradient(const KernelCall& call, Isa isa)
      : isa_(isa),
        of_(std::get<graph::AttentionOf>(call.attributes)),
        scores_(of_, call.operands.first(call.operands.size() - 1)),
        shape_(scores_.shape()),
        query_(call.operands[0].as<T>()),
        key_(call.operands[1].as<T>()),
        value_(call.operands[2].as<T>()),
        dout_(call.operands.back().as<T>()),
        dquery_(call.results[0].as<T>()),
        dkey_(call.results[1].as<T>()),
        dvalue_(call.results[2].as<T>()) {}

  const AttentionShape& shape() const { return shape_; }

  // `dsinks`: a share for each of the heads that read the key head.
  void run(std::int64_t row, std::int64_t key_head, W* dsinks) const {
    thread_local Scratch of_keys;
    W* dkey = of_keys.of<W>(shape_.keys * (shape_.dim + shape_.value_dim));
    W* dvalue = dkey + shape_.keys * shape_.dim;
    std::fill(dkey, dkey + shape_.keys * (shape_.dim + shape_.value_dim), W(0));
    const BlockMemory<T> memory(shape_, of_.soft_cap > 0, true);
    for (std::int64_t index = 0; index < shape_.blocks; ++index) {
      run_block(scores_.block(row, key_head, index), memory, dkey, dvalue, dsinks);
    }
    hand_over(row, key_head, dkey, shape_.dim, dkey_);
    hand_over(row, key_head, dvalue, shape_.value_dim, dvalue_);
  }

 private:
  void run_block(const AttentionBlock& block, const BlockMemory<T>& memory, W* dkey, W* dvalue, W* dsinks) const {
    scores_.exponentials(isa_, block, memory.scores, memory.slopes, memory.rows);
    const std::int64_t count = scores_.rows_of(block);
    divide(block, memory);
    const OffsetList keys = steps(block.keys, 1), dims = steps(shape_.dim, 1), value_dims = steps(shape_.value_dim, 1);
    const OffsetList score_rows = steps(count, block.keys);
    const OffsetList dout_rows = scores_.query_rows(block, shape_.value_dim);
    const OffsetList query_rows = scores_.query_rows(block, shape_.dim);
    const T* dout = dout_ + scores_.query_at(block, shape_.value_dim);
    // Gradients of the keys and values of this head lie dense, [T][D] and [T][V].
    const OffsetList dvalue_rows = steps(block.keys, shape_.value_dim), dkey_rows = steps(block.keys, shape_.dim);
    multiply<W, T, W>(nullptr, isa_, {memory.scores, kOnly, keys, score_rows}, {dout, kOnly, dout_rows, value_dims},
                      {dvalue + block.first_key * shape_.value_dim, kOnly, dvalue_rows, value_dims}, {.add = true});
    const OffsetList value_rows = scores_.key_rows(block, shape_.value_dim);
    multiply<T, T, W>(nullptr, isa_, {dout, kOnly, dout_rows, value_dims},
                      {value_ + scores_.key_at(block, shape_.value_dim), kOnly, value_dims, value_rows},
                      {memory.dscores, kOnly, score_rows, keys});
    through_softmax(block, memory, dsinks);
    const OffsetList key_rows = scores_.key_rows(block, shape_.dim);
    const OffsetList out_rows = steps(count, shape_.dim);
    multiply<W, T, W>(nullptr, isa_, {memory.dscores, kOnly, score_rows, keys},
                      {key_ + scores_.key_at(block, shape_.dim), kOnly, key_rows, dims}, {memory.out, kOnly, out_rows, dims});
    multiply<W, T, W>(nullptr, isa_, {memory.dscores, kOnly, keys, score_rows},
                      {query_ + scores_.query_at(block, shape_.dim), kOnly, query_rows, dims},
                      {dkey + block.first_key * shape_.dim, kOnly, dkey_rows, dims}, {.add = true});
    T* dquery = dquery_ + scores_.query_at(block, shape_.dim);
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = 0; j < shape_.dim; ++j) {
        dquery[query_rows[static_cast<std::size_t>(i)] + j] = store<T>(memory.out[i * shape_.dim + j]);
      }
    }
  }

  // Exponentials become probabilities.
  void divide(const AttentionBlock& block, const BlockMemory<T>& memory) const {
    for (std::int64_t i = 0; i < scores_.rows_of(block); ++i) {
      auto& row = memory.rows[i];
      const W share = row.sum > 0 ? 1 / row.sum : W(0);
      row.sink *= share;
      W* __restrict p = memory.scores + i * block.keys;
      vectorised(isa_, [&]() MOESH_LOOP {
        for (std::int64_t t = 0; t < block.keys; ++t) p[t] *= share;
      });
    }
  }

  // From gradients of probabilities to those of scores before their scale, in place.
  void through_softmax(const AttentionBlock& block, const BlockMemory<T>& memory, W* dsinks) const {
    const W scale = static_cast<W>(of_.score_scale);
    for (std::int64_t i = 0; i < scores_.rows_of(block); ++i) {
      const W* __restrict p = memory.scores + i * block.keys;
      const W* __restrict slope = memory.slopes == nullptr ? nullptr : memory.slopes + i * block.keys;
      W* __restrict d = memory.dscores + i * block.keys;
      vectorised(isa_, [&]() MOESH_LOOP {
        const W mean = sum_of<W>(block.keys, [&](std::int64_t t) MOESH_LOOP { return p[t] * d[t]; });
        dsinks[i % shape_.sharing] -= memory.rows[i].sink * mean;
        for (std::int64_t t = 0; t < block.keys; ++t) d[t] = p[t] * (d[t] - mean) * scale;
        if (slope != nullptr) {
          for (std::int64_t t = 0; t < block.keys; ++t) d[t] *= slope[t];
        }
      });
    }
  }

  void hand_over(std::int64_t row, std::int64_t key_head, const W* from, std::int64_t width, T* to) const {
    for (std::int64_t t = 0; t < shape_.keys; ++t) {
      const W* __restrict source = from + t * width;
      T* __restrict result = to + ((row * shape_.keys + t) * shape_.key_heads + key_head) * width;
      vectorised(isa_, [&]() MOESH_LOOP {
        for (std::int64_t j = 0; j < width; ++j) result[j] = store<T>(source[j]);
      });
    }
  }

  Isa isa_;
  const graph::AttentionOf& of_;
  AttentionScores<T> scores_;
  const AttentionShape& shape_;
  const T* query_;
  const T* key_;
  const T* value_;
  const T* dout_;
  T* dquery_;
  T* dkey_;
  T* dvalue_;
};

template <typename T>
void attention_grad_of(const KernelCall& call) {
  using W = Wide<T>;
  const AttentionGradient<T> gradient(call, chosen_isa());
  const AttentionShape& shape = gradient.shape();
  ScratchList<W> dsinks(static_cast<std::size_t>(shape.rows * shape.heads));  // [B, H]
  call.workers.parallel(shape.rows * shape.key_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      gradient.run(task / shape.key_heads, task % shape.key_heads, dsinks.data() + task * shape.sharing);
    }
  });
  if (call.results.size() < 4) return;
  T* result = call.results[3].as<T>();
  for (std::int64_t head = 0; head < shape.heads; ++head) {
    double sum = 0;
    for (std::int64_t row = 0; row < shape.rows; ++row) sum += dsinks[static_cast<std::size_t>(row * shape.heads + head)];
    result[head] = store<T>(sum);
  }
}

}  // namespace

std::int64_t attention_scratch_bytes(const Shape& query, const Shape& key, const Shape& value, bool backward) {
  const AttentionShape shape = attention_shape(query, key, value);
  const std::int64_t rows = shape.block_queries * shape.sharing;
  std::int64_t numbers = rows * (BlockMemory<float>::kOfKeys * shape.keys + std::max(shape.dim, shape.value_dim));
  if (backward) numbers += shape.keys * (shape.dim + shape.value_dim);
  return numbers * size_of(DType::float32);
}

void attention(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() { attention_of<T>(call); });
}

void attention_grad(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() { attention_grad_of<T>(call); });
}

}  // namespace moesh::backend::cpu
