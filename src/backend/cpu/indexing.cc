// The indexer: scores of keys, those that are chosen by them, and the loss by which the scores are learned.
// Shape suffixes: B rows, S queries, T keys, H heads, D a head's width.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "backend/chosen_keys.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/row_loop.h"
#include "backend/cpu/scratch.h"
#include "backend/cpu/simd.h"
#include "backend/cpu/workspace.h"
#include "backend/scratch_list.h"

namespace moesh::backend::cpu {
namespace {

constexpr std::int64_t kHeadsOfTile = 256;         // a thread holds products of so many heads of queries
constexpr std::int64_t kKeysOfTile = 512;          // and so many keys at a time
constexpr std::int64_t kSharesOfTile = 128 << 10;  // probabilities of one head that a thread holds at a time

// Memory of one thread.
template <typename W>
W* memory(std::int64_t count) {
  thread_local Scratch mine;
  return mine.of<W>(count);
}

struct IndexShape {
  std::int64_t B, S, T, H, D;
  const std::int32_t* order;  // of the queries
  graph::IndexScoresOf of;

  explicit IndexShape(const KernelCall& call)
      : B(call.operands[0].size(0)), S(call.operands[0].size(1)), T(call.operands[1].size(1)), H(call.operands[0].size(2)),
        D(call.operands[0].size(3)), order(call.operands[3].as<std::int32_t>()),
        of(std::get<graph::IndexScoresOf>(call.attributes)) {}

  // How many keys a query, counted over all rows, scores.
  std::int64_t keys_of(std::int64_t query) const { return of.keys_by_place ? graph::keys_up_to(order[query], of.tokens_of_key, T) : T; }
  // The most that one of some queries scores.
  std::int64_t most_keys_of(std::int64_t query, std::int64_t queries) const {
    std::int64_t most = 0;
    for (std::int64_t i = 0; i < queries; ++i) most = std::max(most, keys_of(query + i));
    return most;
  }
  std::int64_t queries_of_tile() const { return std::max<std::int64_t>(1, kHeadsOfTile / std::max<std::int64_t>(1, H)); }
};

// Some queries of a row of the batch, with all their heads, and some of its keys.
struct Tile {
  std::int64_t row, query, queries, key, keys;
};

template <typename T>
class IndexScores {
  using W = Wide<T>;

 public:
  explicit IndexScores(const KernelCall& call)
      : call_(call), isa_(chosen_isa()), n_(call), query_(call.operands[0].as<T>()), key_(call.operands[1].as<T>()),
        weights_(call.operands[2].as<W>()) {}

  void run() const {
    W* const scores = call_.results[0].template as<W>();
    each_block(n_.S, n_.queries_of_tile(), [&](std::int64_t row, std::int64_t query, std::int64_t queries) {
      W* const products = memory<W>(std::max(kHeadsOfTile, n_.H) * kKeysOfTile);
      const std::int64_t first = row * n_.S + query, scored = n_.most_keys_of(first, queries);
      std::fill_n(scores + first * n_.T, queries * n_.T, W(0));
      for (std::int64_t key = 0; key < scored; key += kKeysOfTile) {
        const Tile tile{row, query, queries, key, std::min(kKeysOfTile, scored - key)};
        multiply_heads(tile, products);
        vectorised(isa_, [&]() MOESH_LOOP {
          for (std::int64_t s = 0; s < queries; ++s) {
            W* __restrict to = scores + (first + s) * n_.T + key;
            const std::int64_t keys = keys_in(tile, s);
            for (std::int64_t h = 0; h < n_.H; ++h) {
              const W weight = weights_[(first + s) * n_.H + h];
              const W* __restrict from = products + (s * n_.H + h) * kKeysOfTile;
              for (std::int64_t t = 0; t < keys; ++t) to[t] += weight * (from[t] > 0 ? from[t] : W(0));
            }
          }
        });
      }
    });
  }

  // Gradients of queries and weights add up over keys, those of keys over queries. Each task owns what it adds to, so products are made
  // twice.
  void run_gradient() const {
    each_block(n_.S, n_.queries_of_tile(), [&](std::int64_t row, std::int64_t query, std::int64_t queries) {
      Room room(*this);
      const std::int64_t heads = queries * n_.H, first = (row * n_.S + query) * n_.H;
      W* const dweights = call_.results[2].template as<W>() + first;
      std::fill_n(dweights, heads, W(0));
      std::fill_n(room.sums, heads * n_.D, W(0));
      for (std::int64_t key = 0; key < n_.T; key += kKeysOfTile) {
        const Tile tile{row, query, queries, key, std::min(kKeysOfTile, n_.T - key)};
        if (is_flat(tile)) continue;
        multiply_heads(tile, room.products);
        take_slopes(tile, room, dweights);
        multiply<T, T, W>(nullptr, isa_, {room.slopes, one(), steps(heads, kKeysOfTile), steps(tile.keys, 1)},
                          {key_at(tile), one(), steps(tile.keys, n_.D), steps(n_.D, 1)},
                          {room.sums, one(), steps(heads, n_.D), steps(n_.D, 1)}, {.add = true});
      }
      write(room.sums, heads * n_.D, call_.results[0].template as<T>() + first * n_.D);
    });
    each_block(n_.T, kKeysOfTile, [&](std::int64_t row, std::int64_t key, std::int64_t keys) {
      Room room(*this);
      std::fill_n(room.sums, keys * n_.D, W(0));
      for (std::int64_t query = 0; query < n_.S; query += n_.queries_of_tile()) {
        const Tile tile{row, query, std::min(n_.queries_of_tile(), n_.S - query), key, keys};
        const std::int64_t heads = tile.queries * n_.H;
        if (is_flat(tile)) continue;
        multiply_heads(tile, room.products);
        take_slopes(tile, room, nullptr);
        multiply<T, T, W>(nullptr, isa_, {room.slopes, one(), steps(keys, 1), steps(heads, kKeysOfTile)},
                          {query_at(tile), one(), steps(heads, n_.D), steps(n_.D, 1)},
                          {room.sums, one(), steps(keys, n_.D), steps(n_.D, 1)}, {.add = true});
      }
      write(room.sums, keys * n_.D, call_.results[1].template as<T>() + (row * n_.T + key) * n_.D);
    });
  }

  static std::int64_t bytes_of_gradient(std::int64_t heads, std::int64_t dim) {
    const std::int64_t tile = std::max(kHeadsOfTile, heads) * kKeysOfTile, sums = std::max({kHeadsOfTile, heads, kKeysOfTile}) * dim;
    return (tile + sums) * static_cast<std::int64_t>(sizeof(W)) + tile * static_cast<std::int64_t>(sizeof(T)) + 3 * kCacheLineBytes;
  }

 private:
  struct Room {
    W* products;  // [head of a query][key]
    W* sums;
    T* slopes;  // gradients of the products

    explicit Room(const IndexScores& of) {
      Pieces pieces(memory<std::byte>(bytes_of_gradient(of.n_.H, of.n_.D)));
      const std::int64_t tile = std::max(kHeadsOfTile, of.n_.H) * kKeysOfTile;
      products = pieces.take<W>(tile);
      sums = pieces.take<W>(std::max({kHeadsOfTile, of.n_.H, kKeysOfTile}) * of.n_.D);
      slopes = pieces.take<T>(tile);
    }
  };

  static OffsetList one() { return steps(1, 0); }
  const T* query_at(const Tile& tile) const { return query_ + (tile.row * n_.S + tile.query) * n_.H * n_.D; }
  const T* key_at(const Tile& tile) const { return key_ + (tile.row * n_.T + tile.key) * n_.D; }

  // Calls body(row, first, count) in parallel for blocks of `size` of the `all` queries or keys of each row.
  template <typename Body>
  void each_block(std::int64_t all, std::int64_t size, const Body& body) const {
    const std::int64_t blocks = divide_up(all, size);
    call_.workers.parallel(n_.B * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t first = task % blocks * size;
        body(task / blocks, first, std::min(size, all - first));
      }
    });
  }

  void multiply_heads(const Tile& tile, W* products) const {
    multiply<T, T, W>(nullptr, isa_, {query_at(tile), one(), steps(tile.queries * n_.H, n_.D), steps(n_.D, 1)},
                      {key_at(tile), one(), steps(n_.D, 1), steps(tile.keys, n_.D)},
                      {products, one(), steps(tile.queries * n_.H, kKeysOfTile), steps(tile.keys, 1)});
  }

  // How many keys of a tile one of its queries scores.
  std::int64_t keys_in(const Tile& tile, std::int64_t s) const {
    return std::clamp<std::int64_t>(n_.keys_of(tile.row * n_.S + tile.query + s) - tile.key, 0, tile.keys);
  }

  // Whether no score has a gradient, as behind the queries and where no keys are chosen.
  bool is_flat(const Tile& tile) const {
    for (std::int64_t s = 0; s < tile.queries; ++s) {
      const W* const d = call_.operands[4].template as<W>() + (tile.row * n_.S + tile.query + s) * n_.T + tile.key;
      if (std::any_of(d, d + keys_in(tile, s), [](W x) { return x != 0; })) return false;
    }
    return true;
  }

  // The gradients of the products; adds to those of the weights unless `dweights` is null.
  void take_slopes(const Tile& tile, const Room& room, W* dweights) const {
    const W* const dscores = call_.operands[4].template as<W>();
    vectorised(isa_, [&]() MOESH_LOOP {
      for (std::int64_t head = 0; head < tile.queries * n_.H; ++head) {
        const std::int64_t query = tile.row * n_.S + tile.query + head / n_.H;
        const W weight = weights_[query * n_.H + head % n_.H];
        const W* __restrict d = dscores + query * n_.T + tile.key;
        const W* __restrict product = room.products + head * kKeysOfTile;
        T* __restrict slope = room.slopes + head * kKeysOfTile;
        const std::int64_t keys = keys_in(tile, head / n_.H);
        for (std::int64_t t = 0; t < keys; ++t) slope[t] = store<T>(product[t] > 0 ? d[t] * weight : W(0));
        std::fill(slope + keys, slope + tile.keys, store<T>(W(0)));
        if (dweights == nullptr) continue;
        dweights[head] += sum_of<W>(keys, [&](std::int64_t t) MOESH_LOOP { return product[t] > 0 ? d[t] * product[t] : W(0); });
      }
    });
  }

  void write(const W* from, std::int64_t count, T* to) const {
    vectorised(isa_, [&]() MOESH_LOOP {
      for (std::int64_t i = 0; i < count; ++i) to[i] = store<T>(from[i]);
    });
  }

  const KernelCall& call_;
  Isa isa_;
  IndexShape n_;
  const T* query_;
  const T* key_;
  const W* weights_;
};

// Chooses the keys of one query. All keys have ranks; the last one that is taken is found bit by bit, by counting those above.
template <typename W>
class Choice {
  using Rank = decltype(rank_of(W()));

 public:
  Choice(const KernelCall& call, Isa isa, std::int64_t query)
      : of_(std::get<graph::ChooseKeysOf>(call.attributes)), isa_(isa), keys_(call.operands[0].size(2)) {
    const std::int64_t row = query / call.operands[0].size(1);
    const auto token = [&](std::size_t operand, std::int64_t i) { return call.operands[operand].as<std::int32_t>() + i; };
    const std::int32_t place = *token(1, query), segment = *token(2, query);
    places_ = token(3, row * keys_);
    if (of_.keys_by_place) keys_ = graph::keys_up_to(place, of_.tokens_of_key, keys_);
    ranks_.resize(static_cast<std::size_t>(keys_));
    const W* __restrict scores = call.operands[0].as<W>() + query * call.operands[0].size(2);
    const std::int32_t *__restrict places = places_, *__restrict segments = token(4, row * call.operands[0].size(2));
    Rank* __restrict ranks = ranks_.data();
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t t = 0; t < keys_; ++t) {
        const bool sees = (segments[t] == segment) & (places[t] <= place);
        ranks[t] = sees ? rank_of(scores[t]) : kUnseen;
      }
    });
  }

  void write(std::int32_t* words, std::int64_t count) const {
    const Rank least = last_taken();
    const std::int64_t room = of_.keys - count_from(least + 1), equal_ones = count_from(least) - count_from(least + 1);
    const bool takes_equal_ones = least != kUnseen && (equal_ones <= room || !of_.breaks_ties);
    write_from(takes_equal_ones ? least : least + 1, words, count);
    if (least != kUnseen && !takes_equal_ones) add_first(least, room, words);
  }

 private:
  static constexpr Rank kUnseen = 0;  // below the rank of any score

  std::int64_t count_from(Rank rank) const {
    std::int64_t count = 0;
    const Rank* const ranks = ranks_.data();
    vectorised(isa_, [&]() MOESH_LOOP {
      Rank lanes = 0;
      for (std::int64_t t = 0; t < keys_; ++t) lanes += ranks[t] >= rank ? Rank(1) : Rank(0);
      count = static_cast<std::int64_t>(lanes);
    });
    return count;
  }

  // The rank of the last key that is taken; that of none if the query sees no more keys than are taken.
  Rank last_taken() const {
    Rank least = kUnseen;
    for (Rank bit = Rank(1) << (8 * sizeof(Rank) - 1); bit != 0; bit >>= 1) {
      if (count_from(least | bit) >= of_.keys) least |= bit;
    }
    return least;
  }

  void write_from(Rank rank, std::int32_t* words, std::int64_t count) const {
    for (std::int64_t word = 0; word < count; ++word) {
      std::uint32_t bits = 0;
      const std::int64_t first = word * graph::kKeysOfWord, end = std::min(keys_, first + graph::kKeysOfWord);
      for (std::int64_t t = first; t < end; ++t) bits |= std::uint32_t{ranks_[static_cast<std::size_t>(t)] >= rank} << (t - first);
      words[word] = static_cast<std::int32_t>(bits);
    }
  }

  // Adds the first `count` keys of this rank, in the order of the row.
  void add_first(Rank rank, std::int64_t count, std::int32_t* words) const {
    ScratchList<std::int32_t> equal_ones;
    for (std::int64_t t = 0; t < keys_; ++t) {
      if (ranks_[static_cast<std::size_t>(t)] == rank) equal_ones.push_back(static_cast<std::int32_t>(t));
    }
    const auto end = equal_ones.begin() + count;
    std::nth_element(equal_ones.begin(), end, equal_ones.end(), [&](std::int32_t a, std::int32_t b) { return places_[a] < places_[b]; });
    std::for_each(equal_ones.begin(), end, [&](std::int32_t t) {
      std::int32_t& word = words[t / graph::kKeysOfWord];
      word = static_cast<std::int32_t>(static_cast<std::uint32_t>(word) | std::uint32_t{1} << (t % graph::kKeysOfWord));
    });
  }

  const graph::ChooseKeysOf& of_;
  Isa isa_;
  std::int64_t keys_;  // those that are looked at
  const std::int32_t* places_;
  ScratchList<Rank> ranks_;
};

template <typename E>
void copy_chosen(const KernelCall& call, std::size_t i, std::int64_t row) {
  const View &rows = call.operands[i], &made = call.results[i - 1];
  const std::int64_t T = rows.size(1), K = made.size(1), width = elements(made.shape) / std::max<std::int64_t>(1, made.size(0) * K);
  const E* const from = rows.as<E>() + row * T * width;
  E* const to = made.as<E>() + row * K * width;
  const std::int64_t first = std::get<graph::ChosenRowsOf>(call.attributes).first;
  std::copy_n(from, first * width, to);
  std::int64_t k = first;
  ChosenKeys(call.operands[0]).each(row, [&](std::int64_t t) {
    if (k < K) std::copy_n(from + (first + t) * width, width, to + k++ * width);
  });
  std::fill_n(to + k * width, (K - k) * width, std::is_same_v<E, std::int32_t> ? E(-1) : E(0));
}

template <typename T>
void shares_of(const KernelCall& call) {
  using W = Wide<T>;
  const View &query = call.operands[0], &key = call.operands[1];
  const std::int64_t S = query.size(1), keys = key.size(1), H = query.size(2), D = query.size(3);
  const ChosenKeys chosen(call.operands[2]);
  const Isa isa = chosen_isa();
  const std::int64_t size = std::clamp<std::int64_t>(kSharesOfTile / std::max<std::int64_t>(1, keys), 1, 64), blocks = divide_up(S, size);
  call.workers.parallel(query.size(0) * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t row = task / blocks, first = row * S + task % blocks * size, count = std::min(size, (row + 1) * S - first);
      W* const shares = call.results[0].as<W>() + first * keys;
      std::fill_n(shares, count * keys, W(0));
      const std::int64_t seen = chosen.end(first, count);  // with a causal mask half of all keys, on average
      W* const scores = memory<W>(size * seen);
      for (std::int64_t h = 0; h < H; ++h) {
        multiply<T, T, W>(nullptr, isa, {query.as<T>() + (first * H + h) * D, steps(1, 0), steps(count, H * D), steps(D, 1)},
                          {key.as<T>() + (row * keys * H + h) * D, steps(1, 0), steps(D, 1), steps(seen, H * D)},
                          {scores, steps(1, 0), steps(count, seen), steps(seen, 1)});
        for (std::int64_t s = 0; s < count; ++s) {
          // The scores of the chosen keys move together, so that what follows is vectorised.
          W* const line = scores + s * seen;
          std::int64_t n = 0;
          chosen.each(first + s, [&](std::int64_t t) { line[n++] = line[t]; });
          vectorised(isa, [&]() MOESH_LOOP {
            const W largest = largest_of<W>(n, [&](std::int64_t i) MOESH_LOOP { return line[i]; });
            for (std::int64_t i = 0; i < n; ++i) line[i] = exp_of(line[i] - largest);
            const W share = 1 / sum_of<W>(n, [&](std::int64_t i) MOESH_LOOP { return line[i]; });
            for (std::int64_t i = 0; i < n; ++i) line[i] *= share;
          });
          n = 0;
          chosen.each(first + s, [&](std::int64_t t) { shares[s * keys + t] += line[n++]; });
        }
      }
    }
  });
}

// For the chosen keys of a query, one after the other: the shares, which add up to one, and the softmax of the scores.
template <typename W>
struct Compared {
  std::int64_t count = 0;
  ScratchList<W> shares, softmax;

  Compared(const KernelCall& call, Isa isa, std::int64_t query)
      : shares(static_cast<std::size_t>(call.operands[0].size(2))), softmax(shares.size()) {
    const std::int64_t first = query * call.operands[0].size(2);
    const W *scores = call.operands[0].as<W>() + first, *of = call.operands[1].as<W>() + first;
    ChosenKeys(call.operands[2]).each(query, [&](std::int64_t t) {
      shares[static_cast<std::size_t>(count)] = of[t];
      softmax[static_cast<std::size_t>(count++)] = scores[t];
    });
    W *__restrict p = softmax.data(), *__restrict a = shares.data();
    const std::int64_t n = count;
    vectorised(isa, [&]() MOESH_LOOP {
      const W largest = largest_of<W>(n, [&](std::int64_t i) MOESH_LOOP { return p[i]; });
      for (std::int64_t i = 0; i < n; ++i) p[i] = exp_of(p[i] - largest);
      const W share = 1 / sum_of<W>(n, [&](std::int64_t i) MOESH_LOOP { return p[i]; });
      const W all = 1 / (sum_of<W>(n, [&](std::int64_t i) MOESH_LOOP { return a[i]; }) + static_cast<W>(kIndexEpsilon));
      for (std::int64_t i = 0; i < n; ++i) {
        p[i] *= share;
        a[i] *= all;
      }
    });
  }
};

// Calls body(W(), query) for all queries in parallel; what is compared is float32 or float64.
template <typename Body>
void each_query(const KernelCall& call, const Body& body) {
  const View& scores = call.operands[0];
  call.workers.parallel(scores.size(0) * scores.size(1), grain_of(scores.size(2)), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t query = begin; query < end; ++query) {
      if (scores.dtype == DType::float64) body(double(), query);
      else body(float(), query);
    }
  });
}

}  // namespace

std::int64_t index_scores_bytes(const Shape& query) {
  return IndexScores<float>::bytes_of_gradient(query[2], query[3]);
}

std::int64_t attention_shares_bytes(const Shape& key) { return std::max(kSharesOfTile, key[1]) * static_cast<std::int64_t>(sizeof(float)); }

void index_scores(const KernelCall& call) {
  for_floating(call.operands[0].dtype, [&]<typename T>() { IndexScores<T>(call).run(); });
}

void index_scores_grad(const KernelCall& call) {
  for_floating(call.operands[0].dtype, [&]<typename T>() { IndexScores<T>(call).run_gradient(); });
}

void choose_keys(const KernelCall& call) {
  const View& chosen = call.results[0];
  const std::int64_t words = chosen.size(2);
  const Isa isa = chosen_isa();
  each_query(call, [&]<typename W>(W, std::int64_t query) {
    Choice<W>(call, isa, query).write(chosen.as<std::int32_t>() + query * words, words);
  });
}

void chosen_rows(const KernelCall& call) {
  const std::int64_t rows = call.operands[0].size(0), kinds = static_cast<std::int64_t>(call.results.size());
  call.workers.parallel(rows * kinds, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const auto i = static_cast<std::size_t>(1 + task % kinds);
      if (call.operands[i].dtype == DType::int32) copy_chosen<std::int32_t>(call, i, task / kinds);
      else for_floating(call.operands[i].dtype, [&]<typename T>() { copy_chosen<T>(call, i, task / kinds); });
    }
  });
}

void attention_shares(const KernelCall& call) {
  for_floating(call.operands[0].dtype, [&]<typename T>() { shares_of<T>(call); });
}

void index_loss(const KernelCall& call) {
  const Isa isa = chosen_isa();
  each_query(call, [&]<typename W>(W, std::int64_t query) {
    const Compared<W> of(call, isa, query);
    W sum = 0;
    vectorised(isa, [&]() MOESH_LOOP {
      constexpr auto kEpsilon = static_cast<W>(kIndexEpsilon);
      const W *p = of.softmax.data(), *a = of.shares.data();
      sum = sum_of<W>(of.count, [&](std::int64_t i) MOESH_LOOP { return a[i] * (log_of(a[i] + kEpsilon) - log_of(p[i] + kEpsilon)); });
    });
    call.results[0].as<W>()[query] = sum;
  });
}

void index_loss_grad(const KernelCall& call) {
  const Isa isa = chosen_isa();
  each_query(call, [&]<typename W>(W, std::int64_t query) {
    Compared<W> of(call, isa, query);
    const std::int64_t T = call.operands[0].size(2);
    const W cotangent = call.operands[3].as<W>()[query];
    vectorised(isa, [&]() MOESH_LOOP {
      const W* __restrict p = of.softmax.data();
      W* __restrict slope = of.shares.data();
      for (std::int64_t i = 0; i < of.count; ++i) slope[i] /= -(p[i] + static_cast<W>(kIndexEpsilon));
      const W mean = sum_of<W>(of.count, [&](std::int64_t i) MOESH_LOOP { return p[i] * slope[i]; });
      for (std::int64_t i = 0; i < of.count; ++i) slope[i] = cotangent * p[i] * (slope[i] - mean);
    });
    W* const to = call.results[0].as<W>() + query * T;
    std::fill_n(to, T, W(0));
    std::int64_t n = 0;
    ChosenKeys(call.operands[2]).each(query, [&](std::int64_t t) { to[t] = of.shares[static_cast<std::size_t>(n++)]; });
  });
}

}  // namespace moesh::backend::cpu
