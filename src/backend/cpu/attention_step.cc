// Attention of one query per row. The few query heads that share a key head read its keys and values in place, once for all of them.
// Packing these, which pays off for panels of queries, would take longer than the multiplications.
#include "backend/cpu/attention_step.h"

#include <algorithm>

#include "backend/cpu/simd.h"
#include "backend/scratch_list.h"
#include "base/place.h"

namespace moesh::backend::cpu {
namespace {

constexpr int kColumns = kMostStepHeads;
constexpr std::int64_t kKeyBlock = 224;
constexpr std::int64_t kKeysAhead = 24;       // prefetch distance in keys: the keys of a head are not adjacent in memory
constexpr std::int64_t kTaskElements = 8192;  // elements worth handing to a thread

// Exponentials are rounded to E; nothing is packed, so S is not used.
template <typename T, typename S, typename E>
class StepAttention {
  using W = Wide<T>;

 public:
  StepAttention(const KernelCall& call, Isa isa)
      : isa_(isa), in_(std::get<graph::AttentionOf>(call.attributes), call.operands), shape_(in_.shape), out_(call.results[0].as<T>()),
        highest_(call.results.size() > 1 ? call.results[1].as<float>() : nullptr) {}

  void run(Workers& workers) const {
    const std::int64_t pairs = shape_.rows * shape_.key_heads, elements = shape_.keys * (shape_.dim + shape_.value_dim);
    workers.parallel(pairs, divide_up(kTaskElements, std::max<std::int64_t>(1, elements)), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t pair = begin; pair < end; ++pair) run_pair(pair / shape_.key_heads, pair % shape_.key_heads);
    });
  }

 private:
  void run_pair(std::int64_t row, std::int64_t key_head) const {
    const AttentionPanel<T> panel(in_, row, key_head, 0, shape_.sharing);
    W largest[AttentionPanel<T>::kMostColumns], sums[AttentionPanel<T>::kMostColumns];
    panel.begin_softmax(largest, sums);
    W scores[kKeyBlock * kColumns];
    E exponentials[kKeyBlock * kColumns];
    ScratchList<W> results(static_cast<std::size_t>(shape_.sharing * shape_.value_dim), W(0));
    for (std::int64_t block = panel.keys().begin; block < panel.keys().end; block += kKeyBlock) {
      const Range keys{block, std::min(block + kKeyBlock, panel.keys().end)};
      if (!panel.sees_any(keys)) continue;
      score(panel, row, key_head, keys, scores);
      W shrink[kColumns];
      if (panel.template soften<kColumns>(isa_, keys, scores, exponentials, largest, sums, shrink)) {
        for (std::int64_t i = 0; i < shape_.sharing * shape_.value_dim; ++i) results[at(i)] *= shrink[i / shape_.value_dim];
      }
      add_values(row, key_head, keys, exponentials, results.data());
    }
    if (highest_ != nullptr) panel.write_highest(largest, highest_);
    for (std::int64_t j = 0; j < shape_.sharing; ++j) {
      const W share = sums[j] > 0 ? 1 / sums[j] : W(0);
      T* const to = out_ + panel.head(j) * shape_.value_dim;
      for (std::int64_t i = 0; i < shape_.value_dim; ++i) to[i] = store<T>(results[at(j * shape_.value_dim + i)] * share);
    }
  }

  // Scores are [key][column]. The values are prefetched as well.
  void score(const AttentionPanel<T>& panel, std::int64_t row, std::int64_t key_head, Range keys, W* scores) const {
    std::fill_n(scores, keys.size() * kColumns, W(0));
    const std::int64_t pitch = shape_.key_heads * shape_.dim, value_pitch = shape_.key_heads * shape_.value_dim;
    const T* key = in_.key_at(row, key_head, keys.begin);
    const T* value = in_.value_at(row, key_head, keys.begin);
    for (std::int64_t t = 0; t < std::min(kKeysAhead, keys.size()); ++t) prefetch(key + t * pitch, shape_.dim);
    vectorised(isa_, [&]() MOESH_LOOP {
      for (std::int64_t t = 0; t < keys.size(); ++t, key += pitch, value += value_pitch) {
        prefetch(key + kKeysAhead * pitch, shape_.dim);
        prefetch(value, shape_.value_dim);
        for (std::int64_t j = 0; j < shape_.sharing; ++j) {
          const T* const query = in_.query + panel.head(j) * shape_.dim;
          scores[t * kColumns + j] = sum_of<W>(shape_.dim, [&](std::int64_t i) MOESH_LOOP { return load(query[i]) * load(key[i]); });
        }
      }
    });
  }

  // Results are [column][value dim].
  void add_values(std::int64_t row, std::int64_t key_head, Range keys, const E* exponentials, W* results) const {
    const std::int64_t pitch = shape_.key_heads * shape_.value_dim;
    vectorised(isa_, [&]() MOESH_LOOP {
      const T* __restrict value = in_.value_at(row, key_head, keys.begin);
      for (std::int64_t t = 0; t < keys.size(); ++t, value += pitch) {
        for (std::int64_t j = 0; j < shape_.sharing; ++j) {
          const W weight = load(exponentials[t * kColumns + j]);
          W* __restrict result = results + j * shape_.value_dim;
          for (std::int64_t i = 0; i < shape_.value_dim; ++i) result[i] += weight * load(value[i]);
        }
      }
    });
  }

  Isa isa_;
  AttentionInputs<T> in_;
  const AttentionShape& shape_;
  T* out_;
  float* highest_;  // [B][S][H]; null if nobody asks
};

}  // namespace

void attention_step(const KernelCall& call) { run_in_types<StepAttention>(call); }

}  // namespace moesh::backend::cpu
