#include "backend/cpu/attention_panel.h"

#if defined(__x86_64__)
#include "backend/cpu/intrinsics.h"
#endif

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include "backend/cpu/simd.h"
#include "base/error.h"

namespace moesh::backend::cpu {
namespace {

// How many query heads share a key head. A device may have neither.
std::int64_t sharing_of(std::int64_t heads, std::int64_t key_heads) {
  if (heads == 0 && key_heads == 0) return 1;
  if (key_heads == 0 || heads % key_heads != 0) {
    fail(fmt::format("{} heads of queries share {} of keys on one device", heads, key_heads), "attention",
         "shard the heads of queries and keys alike");
  }
  return heads / key_heads;
}

constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::min();  // a place before all others
constexpr auto kNoFarthest = [] {
  std::array<std::int32_t, AttentionPanel<float>::kMostColumns> all{};
  all.fill(kNone);
  return all;
}();

// The nearest place before `place` that a query there does not see.
std::int32_t farthest_of(std::int32_t place, const graph::AttentionOf& of) {
  std::int64_t farthest = kNone;
  if (of.window > 0) farthest = std::max(farthest, std::int64_t{place} - of.window);
  if (of.chunk > 0) farthest = std::max(farthest, std::int64_t{place} - place % of.chunk - 1);
  return static_cast<std::int32_t>(farthest);
}

}  // namespace

AttentionShape attention_shape(const Shape& query, const Shape& key, const Shape& value) {
  const std::int64_t sharing = sharing_of(query[2], key[2]);
  return {query[0], query[1], key[1], query[2], key[2], sharing, query[3], value[3]};
}

template <typename T>
AttentionInputs<T>::AttentionInputs(const graph::AttentionOf& attributes, std::span<const View> operands)
    : of(attributes),
      shape(attention_shape(operands[0].shape, operands[1].shape, operands[2].shape)),
      query(operands[0].as<T>()),
      key(operands[1].as<T>()),
      value(operands[2].as<T>()),
      query_order(operands[3].as<std::int32_t>()),
      query_segments(operands[4].as<std::int32_t>()) {
  const std::size_t others = operands.size() - (of.is_sparse ? 1 : 0);
  const std::size_t of_keys = others >= 7 ? 5 : 3;
  key_order = operands[of_keys].as<std::int32_t>();
  key_segments = operands[of_keys + 1].as<std::int32_t>();
  if (of.is_sparse) chosen.emplace(operands[of_keys + 2]);
  if (others % 2 == 0) sinks = operands.back().as<T>();
}

template <typename T>
AttentionPanel<T>::AttentionPanel(const AttentionInputs<T>& of, std::int64_t row, std::int64_t key_head, std::int64_t first,
                                  std::int64_t count)
    : of_(of), row_(row), count_(count) {
  assert(count > 0 && count <= kMostColumns);
  std::int64_t token = row * of.shape.queries + first / of.shape.sharing, member = first % of.shape.sharing;
  for (std::int64_t j = 0; j < kMostColumns; ++j) {
    heads_[j] = token * of.shape.heads + key_head * of.shape.sharing + member;
    segments_[j] = of.query_segments[token];
    places_[j] = of.query_order[token];
    farthest_[j] = farthest_of(places_[j], of.of);
    if (j + 1 >= count) continue;  // columns after the last one see what the last one sees
    member = member + 1 < of.shape.sharing ? member + 1 : 0;
    token += member == 0 ? 1 : 0;
  }
  const auto [least_segment, most_segment] = std::minmax_element(segments_, segments_ + kMostColumns);
  const auto [least_place, most_place] = std::minmax_element(places_, places_ + kMostColumns);
  const auto [least_farthest, most_farthest] = std::minmax_element(farthest_, farthest_ + kMostColumns);
  least_segment_ = *least_segment;
  most_segment_ = *most_segment;
  least_place_ = *least_place;
  most_place_ = *most_place;
  least_farthest_ = *least_farthest;
  most_farthest_ = *most_farthest;
  find_keys();
}

template <typename T>
Range AttentionPanel<T>::seen_of(Range keys, std::int32_t least_farthest) const {
  const std::int32_t* places = of_.key_order + row_ * of_.shape.keys;
  const std::int32_t* segments = of_.key_segments + row_ * of_.shape.keys;
  const auto may_be_seen = [&](std::int64_t t) {
    return segments[t] >= least_segment_ && segments[t] <= most_segment_ && places[t] <= most_place_ && places[t] > least_farthest;
  };
  while (keys.begin < keys.end && !may_be_seen(keys.begin)) ++keys.begin;
  while (keys.begin < keys.end && !may_be_seen(keys.end - 1)) --keys.end;
  return keys;
}

template <typename T>
void AttentionPanel<T>::find_keys() {
  const std::int64_t first_pool = of_.shape.keys - of_.of.pools;
  std::int64_t begin = 0, end = first_pool;
  if (of_.of.keys_by_place) {  // most slots of a cache may be empty, so they are not even looked at
    begin = std::clamp<std::int64_t>(std::int64_t{least_farthest_} + 1, 0, end);
    end = std::clamp<std::int64_t>(std::int64_t{most_place_} + 1, begin, end);
  }
  keys_ = seen_of({begin, end}, least_farthest_);
  unseen_ = {keys_.end, keys_.end};
  if (of_.of.pools == 0) return;
  const std::int64_t tokens_of_pool = of_.of.tokens_of_pool;
  const std::int64_t made = tokens_of_pool > 0 ? graph::keys_up_to(most_place_, tokens_of_pool, of_.of.pools) : of_.of.pools;
  const Range pools = seen_of({first_pool, first_pool + made}, kNone);
  if (pools.size() == 0) return;
  unseen_ = {keys_.end, pools.begin};
  keys_ = keys_.size() == 0 ? pools : Range{keys_.begin, pools.end};
}

template <typename T>
OffsetList AttentionPanel<T>::offsets(std::int64_t width) const {
  ScratchList<std::int64_t> offsets(static_cast<std::size_t>(count_));
  for (std::int64_t j = 0; j < count_; ++j) offsets[static_cast<std::size_t>(j)] = heads_[j] * width;
  return offsets;
}

template <typename T>
void AttentionPanel<T>::begin_softmax(W* largest, W* sums) const {
  std::fill_n(largest, kMostColumns, -std::numeric_limits<W>::infinity());
  std::fill_n(sums, kMostColumns, of_.sinks == nullptr ? W(0) : W(1));
  for (std::int64_t j = 0; j < kMostColumns && of_.sinks != nullptr; ++j) largest[j] = load(of_.sinks[heads_[j] % of_.shape.heads]);
}

template <typename T>
void AttentionPanel<T>::write_back(Isa isa, const W* results, std::int64_t columns, std::int64_t dims, const W* shares, T* to) const {
  constexpr std::int64_t kDims = 128;  // dims that are transposed at a time
  W lines[kMostColumns * kDims];
  for (std::int64_t first = 0; first < dims; first += kDims) {
    const std::int64_t count = std::min(kDims, dims - first);
    transpose_lines(isa, results + first * columns, columns, count, count_, lines, kDims);
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t j = 0; j < count_; ++j) {
        const W share = shares == nullptr ? W(1) : shares[j];
        const W* __restrict line = lines + j * kDims;
        T* __restrict head = to + heads_[j] * dims + first;
        for (std::int64_t i = 0; i < count; ++i) head[i] = store<T>(line[i] * share);
      }
    });
  }
}

template <typename T>
template <int kColumns>
void AttentionPanel<T>::hide_unchosen(Isa isa, const Sight& sight, Range keys, W* scores) const {
  const std::int32_t* lines[kColumns];
  for (int j = 0; j < kColumns; ++j) lines[j] = of_.chosen->of_query(heads_[j] / of_.shape.heads);
  const W nothing = -std::numeric_limits<W>::infinity();
  const Range chosen{keys.begin - sight.first, keys.end - sight.first};
  for (std::int64_t first = chosen.begin; first < chosen.end;) {
    const std::int64_t word = first / graph::kKeysOfWord, end = std::min(chosen.end, (word + 1) * graph::kKeysOfWord);
    std::uint32_t words[kColumns];
    for (int j = 0; j < kColumns; ++j) words[j] = static_cast<std::uint32_t>(lines[j][word]) >> (first % graph::kKeysOfWord);
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t t = first; t < end; ++t) {
        W* __restrict x = scores + (t - chosen.begin) * kColumns;
        for (int j = 0; j < kColumns; ++j) {
          x[j] = (words[j] & 1) != 0 ? x[j] : nothing;
          words[j] >>= 1;
        }
      }
    });
    first = end;
  }
}

#if defined(__x86_64__)
template <typename T>
void AttentionPanel<T>::take_words(int first, std::int64_t word, std::int32_t* to) const {
  for (int j = 0; j < 16; ++j) to[j] = of_.chosen->of_query(heads_[first + j] / of_.shape.heads)[word];
}

template <typename T>
template <bool kIsSparse>
void AttentionPanel<T>::scale_and_hide_32(const Sight& sight, Range keys, float scale, float* scores, float* largest) const {
  const std::int32_t* const places = of_.key_order + row_ * of_.shape.keys;
  const std::int32_t* const segments = of_.key_segments + row_ * of_.shape.keys;
  const __m512 scales = _mm512_set1_ps(scale), nothing = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  for (int half = 0; half < 32; half += 16) {
    const __m512i their_segments = _mm512_loadu_si512(segments_ + half), their_places = _mm512_loadu_si512(places_ + half);
    const __m512i their_farthest = _mm512_loadu_si512(sight.farthest + half);
    __m512 most = _mm512_loadu_ps(largest + half);
    std::int32_t chosen[16];  // each column's word that the key is in
    float* x = scores + half;
    for (std::int64_t t = keys.begin; t < keys.end; ++t, x += 32) {
      __mmask16 sees = 0xFFFF;
      if constexpr (kIsSparse) {
        const std::int64_t number = t - sight.first;
        if (t == keys.begin || number % graph::kKeysOfWord == 0) take_words(half, number / graph::kKeysOfWord, chosen);
        const __m512i bit = _mm512_set1_epi32(static_cast<std::int32_t>(1u << (number % graph::kKeysOfWord)));
        sees = _mm512_test_epi32_mask(_mm512_loadu_si512(chosen), bit);
      }
      if (!is_seen_by_all(sight, segments[t], places[t])) {
        const __m512i place = _mm512_set1_epi32(places[t]);
        sees = _mm512_mask_cmpeq_epi32_mask(sees, _mm512_set1_epi32(segments[t]), their_segments);
        sees = _mm512_mask_cmple_epi32_mask(sees, place, their_places);
        sees = _mm512_mask_cmpgt_epi32_mask(sees, place, their_farthest);
      }
      const __m512 score = _mm512_mask_mul_ps(nothing, sees, _mm512_loadu_ps(x), scales);
      _mm512_storeu_ps(x, score);
      most = _mm512_max_ps(score, most);
    }
    _mm512_storeu_ps(largest + half, most);
  }
}
#endif

template <typename T>
template <int kColumns>
void AttentionPanel<T>::finish_scores(Isa isa, Range keys, W* scores, W* slopes, W* largest) const {
  const double cap = of_.of.soft_cap;
  const bool has_pools = of_.of.pools > 0;
  if (cap > 0) cap_scores(isa, keys.size() * kColumns, static_cast<W>(of_.of.score_scale / cap), static_cast<W>(cap), scores, slopes);
  const W scale = cap > 0 ? W(1) : static_cast<W>(of_.of.score_scale);
  const std::int64_t first_pool = std::clamp(of_.shape.keys - of_.of.pools, keys.begin, keys.end);
  const Range near{keys.begin, first_pool}, pools{first_pool, keys.end};
  if (near.size() > 0)
    finish_part<kColumns>(isa, {farthest_, most_farthest_, 0, of_.chosen && !has_pools}, near, scale, scores, largest);
  if (pools.size() > 0) {
    const Sight sight{kNoFarthest.data(), kNone, of_.shape.keys - of_.of.pools, of_.chosen.has_value()};
    finish_part<kColumns>(isa, sight, pools, scale, scores + near.size() * kColumns, largest);
  }
}

template <typename T>
template <int kColumns>
void AttentionPanel<T>::finish_part(Isa isa, const Sight& sight, Range keys, W scale, W* scores, W* largest) const {
#if defined(__x86_64__)
  if constexpr (kColumns == 32 && std::is_same_v<W, float>) {
    if (isa >= Isa::avx512) {
      if (sight.is_sparse) return scale_and_hide_32<true>(sight, keys, scale, scores, largest);
      return scale_and_hide_32<false>(sight, keys, scale, scores, largest);
    }
  }
#endif
  if (sight.is_sparse) hide_unchosen<kColumns>(isa, sight, keys, scores);
  const std::int32_t* __restrict places = of_.key_order + row_ * of_.shape.keys;
  const std::int32_t* __restrict segments = of_.key_segments + row_ * of_.shape.keys;
  const W nothing = -std::numeric_limits<W>::infinity();
  vectorised(isa, [&]() MOESH_LOOP {
    W most[kColumns];
    for (int j = 0; j < kColumns; ++j) most[j] = largest[j];
    for (std::int64_t t = keys.begin; t < keys.end; ++t) {
      W* __restrict x = scores + (t - keys.begin) * kColumns;
      const std::int32_t segment = segments[t], place = places[t];
      if (is_seen_by_all(sight, segment, place)) {
        for (int j = 0; j < kColumns; ++j) {
          x[j] *= scale;
          most[j] = x[j] > most[j] ? x[j] : most[j];
        }
      } else {
        for (int j = 0; j < kColumns; ++j) {
          const bool sees = (segment == segments_[j]) & (place <= places_[j]) & (place > sight.farthest[j]);
          const W score = x[j] * scale;
          x[j] = sees ? score : nothing;
          most[j] = x[j] > most[j] ? x[j] : most[j];
        }
      }
    }
    for (int j = 0; j < kColumns; ++j) largest[j] = most[j];
  });
}

#define MOESH_PANEL(T, COLUMNS)                                                                                       \
  template void AttentionPanel<T>::finish_scores<COLUMNS>(Isa, Range, Wide<T>*, Wide<T>*, Wide<T>*) const
#define MOESH_PANELS(T)               \
  template struct AttentionInputs<T>; \
  template class AttentionPanel<T>;   \
  MOESH_PANEL(T, 8);                  \
  MOESH_PANEL(T, 16);                 \
  MOESH_PANEL(T, 32)
MOESH_PANELS(float);
MOESH_PANELS(bfloat16);
MOESH_PANELS(double);
#undef MOESH_PANEL
#undef MOESH_PANELS

}  // namespace moesh::backend::cpu
