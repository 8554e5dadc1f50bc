// From tokens to vectors and back: the embedding, and the loss on logits over the vocabulary.
// Shape suffixes: B rows, S length, V vocabulary, M embedding.
#include "backend/cpu/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/core.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/row_loop.h"
#include "backend/cpu/simd.h"
#include "backend/scalar.h"
#include "backend/scratch_list.h"
#include "base/error.h"

namespace moesh::backend::cpu {
namespace {

using graph::CrossEntropyOf;

void check_tokens(const View& tokens, std::int64_t vocabulary) {
  const auto* token = tokens.as<std::int32_t>();
  for (std::int64_t i = 0; i < tokens.count(); ++i) {
    if (token[i] < 0 || token[i] >= vocabulary) fail_token("token", token[i], i, tokens, vocabulary);
  }
}

// Tokens grouped by id: those of id v are order[begin[v]] to order[begin[v + 1]], in their original order.
struct Groups {
  ScratchList<std::int64_t> begin;
  ScratchList<std::int64_t> order;
};

Groups group_by_id(const View& tokens, std::int64_t vocabulary) {
  const auto* token = tokens.as<std::int32_t>();
  Groups groups;
  groups.begin.resize(static_cast<std::size_t>(vocabulary + 1));
  groups.order.resize(static_cast<std::size_t>(tokens.count()));
  for (std::int64_t i = 0; i < tokens.count(); ++i) ++groups.begin[static_cast<std::size_t>(token[i]) + 1];
  for (std::size_t v = 1; v < groups.begin.size(); ++v) groups.begin[v] += groups.begin[v - 1];
  ScratchList<std::int64_t> next = groups.begin;
  for (std::int64_t i = 0; i < tokens.count(); ++i) {
    groups.order[static_cast<std::size_t>(next[static_cast<std::size_t>(token[i])]++)] = i;
  }
  return groups;
}

// For each id, the sum of `dy` over the tokens with that id, added to `table` if there is one.
template <typename T, typename D>
void sum_uses(const View& tokens, const View& dy, const View* table, const KernelCall& call) {
  using W = Wide<T>;
  const View& dtable = call.results[0];
  const std::int64_t vocabulary = dtable.size(0), width = dtable.size(1);
  check_tokens(tokens, vocabulary);
  const Groups groups = group_by_id(tokens, vocabulary);
  const Isa isa = chosen_isa();
  call.workers.parallel(vocabulary, grain_of(width), [&](std::int64_t begin, std::int64_t end) {
    ScratchList<W> sum(static_cast<std::size_t>(width));
    for (std::int64_t id = begin; id < end; ++id) {
      const auto v = static_cast<std::size_t>(id);
      const bool is_used = groups.begin[v] < groups.begin[v + 1];
      const T* old = table == nullptr ? nullptr : table->as<T>() + id * width;
      W* __restrict total = sum.data();
      T* to = dtable.as<T>() + id * width;
      if (!is_used) {
        if (old == nullptr) std::fill_n(to, width, T(0));
        else if (old != to) std::copy_n(old, width, to);
        continue;
      }
      std::fill(sum.begin(), sum.end(), W(0));
      vectorised(isa, [&]() MOESH_LOOP {
        for (std::int64_t i = groups.begin[v]; i < groups.begin[v + 1]; ++i) {
          const D* __restrict from = dy.as<D>() + groups.order[static_cast<std::size_t>(i)] * width;
          for (std::int64_t j = 0; j < width; ++j) total[j] += static_cast<W>(load(from[j]));
        }
        if (old != nullptr) {
          for (std::int64_t j = 0; j < width; ++j) total[j] += load(old[j]);
        }
        for (std::int64_t j = 0; j < width; ++j) to[j] = store<T>(total[j]);
      });
    }
  });
}

void sum_uses(const View& tokens, const View& dy, const View* table, const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() {
    for_floating(dy.dtype, [&]<typename D>() { sum_uses<T, D>(tokens, dy, table, call); });
  });
}

// The normaliser of the softmax of a row of logits.
template <typename W>
struct Normaliser {
  W largest;
  W sum;  // of exp(logit - largest)
  W log() const { return largest + std::log(sum); }
};

template <typename T>
Normaliser<Wide<T>> normaliser_of(Isa isa, const T* __restrict x, std::int64_t width) {
  using W = Wide<T>;
  Normaliser<W> made{};
  vectorised(isa, [&]() MOESH_LOOP {
    const W largest = largest_of<W>(width, [&](std::int64_t i) MOESH_LOOP { return load(x[i]); });
    made = {largest, sum_of<W>(width, [&](std::int64_t i) MOESH_LOOP { return exp_of(load(x[i]) - largest); })};
  });
  return made;
}

// The operands that the loss and its gradient read.
template <typename T>
struct LossInputs {
  const T* logits_BSV;
  const View& targets;
  const std::int32_t* segments;
  std::int64_t vocabulary;
  double z_loss;
  Isa isa = chosen_isa();

  explicit LossInputs(const KernelCall& call)
      : logits_BSV(call.operands[0].as<T>()),
        targets(call.operands[1]),
        segments(call.operands[2].as<std::int32_t>()),
        vocabulary(call.operands[0].shape.back()),
        z_loss(std::get<CrossEntropyOf>(call.attributes).z_loss) {}

  std::int64_t count() const { return targets.count(); }
  bool counts(std::int64_t position) const { return segments[position] != 0; }
  const T* logits(std::int64_t position) const { return logits_BSV + position * vocabulary; }
  std::int64_t grain() const { return grain_of(vocabulary); }
  std::int64_t target(std::int64_t position) const {
    const std::int32_t target = targets.as<std::int32_t>()[position];
    if (target < 0 || target >= vocabulary) fail_token("target", target, position, targets, vocabulary);
    return target;
  }
};

template <typename T>
void add_loss(const LossInputs<T>& of, std::int64_t position, TokenLosses& losses) {
  const T* logits = of.logits(position);
  const double target = load(logits[of.target(position)]);
  const Normaliser<Wide<T>> made = normaliser_of(of.isa, logits, of.vocabulary);
  const double log_sum = std::log(static_cast<double>(made.sum));
  losses.set(position, (static_cast<double>(made.largest) - target) + log_sum, static_cast<double>(made.largest) + log_sum);
}

template <typename T>
void cross_entropy_of(const KernelCall& call) {
  const LossInputs<T> of(call);
  TokenLosses losses(call, of.count(), of.z_loss);
  call.workers.parallel(of.count(), of.grain(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (of.counts(i)) add_loss(of, i, losses);
    }
  });
  losses.give_sums(call);
}

template <typename T>
void vocab_scores_of(const KernelCall& call) {
  using W = Wide<T>;
  const View& logits = call.operands[0];
  const std::int64_t vocabulary = logits.shape.back();
  const std::int64_t pieces = call.results[1].shape.back();
  const std::int64_t width = vocabulary / pieces;
  const std::int64_t origin = call.origins.empty() ? 0 : call.origins[0].back();
  const Isa isa = chosen_isa();
  call.workers.parallel(call.operands[1].count(), grain_of(vocabulary), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* row = logits.as<T>() + i * vocabulary;
      const std::int64_t target = call.operands[1].as<std::int32_t>()[i] - origin;
      call.results[0].as<W>()[i] = target >= 0 && target < vocabulary ? load(row[target]) : W(0);
      for (std::int64_t piece = 0; piece < pieces; ++piece) {
        call.results[1].as<W>()[i * pieces + piece] = normaliser_of(isa, row + piece * width, width).log();
      }
    }
  });
}

template <typename W>
void cross_entropy_of_scores_of(const KernelCall& call) {
  const std::int64_t tokens = call.operands[0].count(), pieces = call.operands[1].shape.back();
  TokenLosses losses(call, tokens, std::get<CrossEntropyOf>(call.attributes).z_loss);
  for (std::int64_t i = 0; i < tokens; ++i) {
    if (call.operands[2].as<std::int32_t>()[i] == 0) continue;
    const auto log = static_cast<double>(log_of_all(call.operands[1].as<W>() + i * pieces, pieces));
    losses.set(i, log - static_cast<double>(call.operands[0].as<W>()[i]), log);
  }
  losses.give_sums(call);
}

// The gradient of a piece of the vocabulary, given the logarithms of the normalisers of all pieces.
template <typename T>
void cross_entropy_grad_of_piece(const KernelCall& call) {
  using W = Wide<T>;
  const auto dsum = static_cast<W>(load_scalar(call.operands[3]));
  const auto z_loss = static_cast<W>(std::get<CrossEntropyOf>(call.attributes).z_loss);
  const std::int64_t vocabulary = call.operands[0].shape.back();
  const std::int64_t pieces = call.operands[4].shape.back();
  const std::int64_t origin = call.origins.empty() ? 0 : call.origins[0].back();
  const Isa isa = chosen_isa();
  call.workers.parallel(call.operands[1].count(), grain_of(vocabulary), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* logits = call.operands[0].as<T>() + i * vocabulary;
      T* dlogits = call.results[0].as<T>() + i * vocabulary;
      const W weight = call.operands[2].as<std::int32_t>()[i] == 0 ? 0 : dsum;
      const W log = log_of_all(call.operands[4].as<W>() + i * pieces, pieces);
      const W slope = 1 + 2 * z_loss * log;
      const std::int64_t target = call.operands[1].as<std::int32_t>()[i] - origin;
      const bool is_here = target >= 0 && target < vocabulary;
      const W of_target = is_here ? load(logits[target]) : W(0);
      vectorised(isa, [&]() MOESH_LOOP {
        MOESH_BY_ELEMENT
        for (std::int64_t v = 0; v < vocabulary; ++v) dlogits[v] = store<T>(weight * (slope * exp_of(load(logits[v]) - log)));
      });
      if (is_here) dlogits[target] = store<T>(weight * (slope * exp_of(of_target - log) - 1));
    }
  });
}

template <typename T>
void cross_entropy_grad_at(const LossInputs<T>& of, std::int64_t position, Wide<T> dsum, T* dlogits) {
  using W = Wide<T>;
  if (!of.counts(position)) {
    std::fill_n(dlogits, of.vocabulary, store<T>(W(0)));
    return;
  }
  const T* logits = of.logits(position);
  const std::int64_t target = of.target(position);
  const W of_target = load(logits[target]);
  const Normaliser<W> made = normaliser_of(of.isa, logits, of.vocabulary);
  const W slope = (1 + 2 * static_cast<W>(of.z_loss) * made.log()) / made.sum;
  vectorised(of.isa, [&]() MOESH_LOOP {
    MOESH_BY_ELEMENT
    for (std::int64_t i = 0; i < of.vocabulary; ++i) dlogits[i] = store<T>(dsum * (slope * exp_of(load(logits[i]) - made.largest)));
  });
  dlogits[target] = store<T>(dsum * (slope * exp_of(of_target - made.largest) - 1));
}

template <typename T>
void cross_entropy_grad_of(const KernelCall& call) {
  const LossInputs<T> of(call);
  const auto dsum = static_cast<Wide<T>>(load_scalar(call.operands[3]));
  T* dlogits = call.results[0].as<T>();
  call.workers.parallel(of.count(), of.grain(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) cross_entropy_grad_at(of, i, dsum, dlogits + i * of.vocabulary);
  });
}

}  // namespace

void fail_token(const char* what, std::int32_t token, std::int64_t index, const View& tokens, std::int64_t vocabulary) {
  const std::int64_t length = tokens.shape.empty() ? 1 : tokens.shape.back();
  fail(fmt::format("{} {} lies outside the vocabulary of {}", what, token, vocabulary),
       fmt::format("row {}, position {} of the batch", index / length, index % length),
       "set vocab_size to the tokenizer's, or tokenize the data anew");
}

// A shard of the table gives zeros for tokens of other shards.
void embed(const KernelCall& call) {
  const View& table = call.operands[0];
  const View& tokens = call.operands[1];
  const std::int64_t first = call.origins.empty() ? 0 : call.origins[0][0];
  if (call.origins.empty()) check_tokens(tokens, table.size(0));
  const auto* token = tokens.as<std::int32_t>();
  const std::int64_t width = table.size(1);
  const Isa isa = chosen_isa();
  for_floating(table.dtype, [&]<typename T>() {
    for_floating(call.results[0].dtype, [&]<typename R>() {
      call.workers.parallel(tokens.count(), grain_of(width), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          R* __restrict to = call.results[0].as<R>() + i * width;
          const std::int64_t row = token[i] - first;
          if (row < 0 || row >= table.size(0)) {
            std::fill_n(to, width, R(0));
            continue;
          }
          const T* __restrict from = table.as<T>() + row * width;
          vectorised(isa, [&]() MOESH_LOOP {
            for (std::int64_t j = 0; j < width; ++j) to[j] = store<R>(static_cast<Wide<R>>(load(from[j])));
          });
        }
      });
    });
  });
}

void embed_grad(const KernelCall& call) { sum_uses(call.operands[0], call.operands[1], nullptr, call); }

void embed_add(const KernelCall& call) { sum_uses(call.operands[1], call.operands[2], &call.operands[0], call); }

void positions(const KernelCall& call) {
  const auto* segments = call.operands[0].as<std::int32_t>();
  const std::int64_t all = call.operands[0].count();
  store_scalar(call.results[0], static_cast<double>(all - std::count(segments, segments + all, 0)));
}

void cross_entropy(const KernelCall& call) {
  for_floating(call.operands[0].dtype, [&]<typename T>() { cross_entropy_of<T>(call); });
}

void cross_entropy_grad(const KernelCall& call) {
  const bool in_pieces = call.operands.size() == 5;
  for_floating(call.results[0].dtype, [&]<typename T>() {
    in_pieces ? cross_entropy_grad_of_piece<T>(call) : cross_entropy_grad_of<T>(call);
  });
}

void vocab_scores(const KernelCall& call) {
  for_floating(call.operands[0].dtype, [&]<typename T>() { vocab_scores_of<T>(call); });
}

void cross_entropy_of_scores(const KernelCall& call) {
  if (call.operands[0].dtype == DType::float64) return cross_entropy_of_scores_of<double>(call);
  cross_entropy_of_scores_of<float>(call);
}

}  // namespace moesh::backend::cpu
