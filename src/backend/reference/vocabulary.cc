// Embedding lookup, and the loss over the vocabulary. Shape suffixes: V vocabulary, M embedding.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <fmt/core.h>

#include "backend/element.h"
#include "backend/reference/kernels.h"
#include "backend/scalar.h"
#include "base/error.h"

namespace moesh::backend::reference {
namespace {

std::int64_t checked(std::int32_t token, std::int64_t vocabulary) {
  if (token >= 0 && token < vocabulary) return token;
  fail(fmt::format("token {}, the vocabulary has {}", token, vocabulary), "the batch", "use data that belongs to this model");
}

void embed(const KernelCall& call) {
  const View& table = call.operands[0];
  const View& rows = call.results[0];
  const std::int64_t width = table.size(1);
  const bool in_pieces = !call.origins.empty();
  for (std::int64_t i = 0; i < call.operands[1].count(); ++i) {
    const std::int32_t token = call.operands[1].as<std::int32_t>()[i];
    const std::int64_t row = in_pieces ? token - call.origins[0][0] : checked(token, table.size(0));
    const bool is_here = row >= 0 && row < table.size(0);  // otherwise another shard has it
    for_floating(rows.dtype, [&]<typename R>() {
      for_floating(table.dtype, [&]<typename T>() {
        for (std::int64_t m = 0; m < width; ++m) {
          rows.as<R>()[i * width + m] = is_here ? store<R>(static_cast<Wide<R>>(load(table.as<T>()[row * width + m]))) : R(0);
        }
      });
    });
  }
}

// For each element of the table, the sum of `dy` over all uses of its row.
template <typename W>
std::vector<W> sums_of_uses(const View& tokens, const View& dy, const View& table) {
  std::vector<W> sums(static_cast<std::size_t>(table.count()), 0);
  const std::int64_t width = table.size(1);
  for_floating(dy.dtype, [&]<typename D>() {
    for (std::int64_t i = 0; i < tokens.count(); ++i) {
      const std::int64_t token = checked(tokens.as<std::int32_t>()[i], table.size(0));
      W* const row = sums.data() + token * width;
      for (std::int64_t m = 0; m < width; ++m) row[m] += static_cast<W>(load(dy.as<D>()[i * width + m]));
    }
  });
  return sums;
}

void embed_grad(const KernelCall& call) {
  const View& table = call.results[0];
  for_floating(table.dtype, [&]<typename T>() {
    const auto sums = sums_of_uses<Wide<T>>(call.operands[0], call.operands[1], table);
    for (std::size_t i = 0; i < sums.size(); ++i) table.as<T>()[i] = store<T>(sums[i]);
  });
}

void embed_add(const KernelCall& call) {
  const View& table = call.results[0];
  for_floating(table.dtype, [&]<typename T>() {
    const auto sums = sums_of_uses<Wide<T>>(call.operands[1], call.operands[2], table);
    for (std::size_t i = 0; i < sums.size(); ++i) table.as<T>()[i] = store<T>(load(call.operands[0].as<T>()[i]) + sums[i]);
  });
}

template <typename T>
double log_sum_exp(const T* logits, std::int64_t width) {
  double largest = -std::numeric_limits<double>::infinity();
  for (std::int64_t v = 0; v < width; ++v) largest = std::max(largest, static_cast<double>(load(logits[v])));
  double sum = 0;
  for (std::int64_t v = 0; v < width; ++v) sum += std::exp(static_cast<double>(load(logits[v])) - largest);
  return largest + std::log(sum);
}

std::int64_t first_of_piece(const KernelCall& call) { return call.origins.empty() ? 0 : call.origins[0].back(); }

void positions(const KernelCall& call) {
  double count = 0;
  for (std::int64_t i = 0; i < call.operands[0].count(); ++i) count += call.operands[0].as<std::int32_t>()[i] != 0 ? 1 : 0;
  store_scalar(call.results[0], count);
}

// Sums over tokens: the losses, and the parts of these that the z-loss makes.
struct LossSums {
  double z_loss, all = 0, of_z_loss = 0;

  void add(double entropy, double log) {
    const double more = z_loss * log * log;
    all += entropy + more;
    of_z_loss += more;
  }
  void give(const KernelCall& call) const {
    store_scalar(call.results[0], all);
    if (graph::gives_z_loss(call.results.size())) store_scalar(call.results.back(), of_z_loss);
  }
};

void cross_entropy(const KernelCall& call) {
  const View& logits = call.operands[0];
  const std::int64_t width = logits.shape.back();
  for_floating(logits.dtype, [&]<typename T>() {
    LossSums sums{std::get<graph::CrossEntropyOf>(call.attributes).z_loss};
    for (std::int64_t i = 0; i < call.operands[1].count(); ++i) {
      if (call.operands[2].as<std::int32_t>()[i] == 0) continue;
      const T* row = logits.as<T>() + i * width;
      const double normaliser = log_sum_exp(row, width);
      const std::int64_t target = checked(call.operands[1].as<std::int32_t>()[i], width);
      sums.add(normaliser - static_cast<double>(load(row[target])), normaliser);
    }
    sums.give(call);
  });
}

// For a shard of the vocabulary, or several that lie one after the other: the target's logit if it is here, and the log-sum-exp of each
// shard.
void vocab_scores(const KernelCall& call) {
  const View& logits = call.operands[0];
  const std::int64_t width = logits.shape.back(), pieces = call.results[1].shape.back();
  for_floating(logits.dtype, [&]<typename T>() {
    for (std::int64_t i = 0; i < call.operands[1].count(); ++i) {
      const T* row = logits.as<T>() + i * width;
      const std::int64_t target = call.operands[1].as<std::int32_t>()[i] - first_of_piece(call);
      const bool is_here = target >= 0 && target < width;
      call.results[0].as<Wide<T>>()[i] = is_here ? load(row[target]) : Wide<T>(0);
      for (std::int64_t piece = 0; piece < pieces; ++piece) {
        call.results[1].as<Wide<T>>()[i * pieces + piece] =
            static_cast<Wide<T>>(log_sum_exp(row + piece * (width / pieces), width / pieces));
      }
    }
  });
}

void cross_entropy_of_scores(const KernelCall& call) {
  const std::int64_t pieces = call.operands[1].shape.back();
  for_floating(call.operands[0].dtype, [&]<typename T>() {
    LossSums sums{std::get<graph::CrossEntropyOf>(call.attributes).z_loss};
    for (std::int64_t i = 0; i < call.operands[0].count(); ++i) {
      if (call.operands[2].as<std::int32_t>()[i] == 0) continue;
      const double normaliser = log_sum_exp(call.operands[1].as<T>() + i * pieces, pieces);
      sums.add(normaliser - static_cast<double>(load(call.operands[0].as<T>()[i])), normaliser);
    }
    sums.give(call);
  });
}

// A device with one shard of the vocabulary is given the log-sum-exp of every shard.
void cross_entropy_grad(const KernelCall& call) {
  const double z_loss = std::get<graph::CrossEntropyOf>(call.attributes).z_loss;
  const View& logits = call.operands[0];
  const std::int64_t width = logits.shape.back();
  const double dsum = load_scalar(call.operands[3]);
  const bool in_pieces = call.operands.size() == 5;
  for_floating(logits.dtype, [&]<typename T>() {
    for (std::int64_t i = 0; i < call.operands[1].count(); ++i) {
      const T* row = logits.as<T>() + i * width;
      T* out = call.results[0].as<T>() + i * width;
      const double weight = call.operands[2].as<std::int32_t>()[i] == 0 ? 0 : dsum;
      double normaliser = 0;
      if (in_pieces) {
        const std::int64_t pieces = call.operands[4].shape.back();
        normaliser = log_sum_exp(call.operands[4].as<Wide<T>>() + i * pieces, pieces);
      } else {
        normaliser = log_sum_exp(row, width);
      }
      const std::int64_t target = call.operands[1].as<std::int32_t>()[i] - (in_pieces ? first_of_piece(call) : 0);
      for (std::int64_t v = 0; v < width; ++v) {
        const double p = std::exp(static_cast<double>(load(row[v])) - normaliser);
        out[v] = store<T>(weight * (p * (1 + 2 * z_loss * normaliser) - (v == target ? 1 : 0)));
      }
    }
  });
}

// The logits of one token at a time, from x and a table, and their derivatives by the products of both.
template <typename T>
struct LogitsOfToken {
  const graph::VocabLossOf& of;
  const View &x, &table;
  std::int64_t width, vocabulary;
  std::int64_t first;  // the first word of the table, if it is a shard
  std::vector<double> logits, bends;

  explicit LogitsOfToken(const KernelCall& call)
      : of(std::get<graph::VocabLossOf>(call.attributes)),
        x(call.operands[0]),
        table(call.operands[1]),
        width(x.size(2)),
        vocabulary(table.size(of.by_token ? 0 : 1)),
        first(call.origins.empty() ? 0 : call.origins[1][of.by_token ? 0 : 1]),
        logits(static_cast<std::size_t>(vocabulary)),
        bends(logits) {}

  void compute(std::int64_t token) {
    for (std::int64_t v = 0; v < vocabulary; ++v) {
      double product = 0;
      for (std::int64_t m = 0; m < width; ++m) product += number(token, m) * word(v, m);
      const double scaled = of.scale * product, bent = std::tanh(scaled);
      logits[static_cast<std::size_t>(v)] = of.soft_cap > 0 ? of.soft_cap * bent : scaled;
      bends[static_cast<std::size_t>(v)] = of.scale * (of.soft_cap > 0 ? of.soft_cap * (1 - bent * bent) : 1);
    }
  }

  // Adds what the token's loss gives to the gradients. `log`: of the sum of the exponentials of all logits.
  void add_gradients(std::int64_t token, double log, double dsum, std::int64_t target, double* dx, std::vector<double>& dtable) const {
    for (std::int64_t v = 0; v < vocabulary; ++v) {
      const double p = std::exp(logits[static_cast<std::size_t>(v)] - log);
      const double slope = dsum * (p * (1 + 2 * of.z_loss * log) - (v == target ? 1 : 0)) * bends[static_cast<std::size_t>(v)];
      for (std::int64_t m = 0; m < width; ++m) {
        dx[m] += slope * word(v, m);
        dtable[static_cast<std::size_t>(place(v, m))] += slope * number(token, m);
      }
    }
  }

  std::int64_t place(std::int64_t v, std::int64_t m) const { return of.by_token ? v * width + m : m * vocabulary + v; }
  double number(std::int64_t token, std::int64_t m) const { return double{load(x.as<T>()[token * width + m])}; }
  double word(std::int64_t v, std::int64_t m) const {
    return double{load(table.dtype == x.dtype ? table.as<T>()[place(v, m)] : store<T>(table.as<Wide<T>>()[place(v, m)]))};
  }
};

// Rounds the gradients of x and of the table.
template <typename T>
void give_gradients(const std::vector<double>& dx, const View& x, const std::vector<double>& dtable, const View& table) {
  for (std::size_t i = 0; i < dx.size(); ++i) x.as<T>()[i] = store<T>(static_cast<Wide<T>>(dx[i]));
  for_floating(table.dtype, [&]<typename R>() {
    for (std::size_t i = 0; i < dtable.size(); ++i) table.as<R>()[i] = store<R>(static_cast<Wide<R>>(dtable[i]));
  });
}

void vocab_loss(const KernelCall& call) {
  const bool has_gradients = graph::gives_gradients(call.results.size());
  const double dsum = has_gradients ? load_scalar(call.operands[4]) : 0;
  for_floating(call.operands[0].dtype, [&]<typename T>() {
    LogitsOfToken<T> of(call);
    std::vector<double> dx(static_cast<std::size_t>(call.operands[0].count())), dtable(static_cast<std::size_t>(call.operands[1].count()));
    LossSums sums{of.of.z_loss};
    for (std::int64_t i = 0; i < call.operands[2].count(); ++i) {
      if (call.operands[3].as<std::int32_t>()[i] == 0) continue;
      of.compute(i);
      const double log = log_sum_exp(of.logits.data(), of.vocabulary);
      const std::int64_t target = checked(call.operands[2].as<std::int32_t>()[i], of.vocabulary);
      sums.add(log - of.logits[static_cast<std::size_t>(target)], log);
      if (has_gradients) of.add_gradients(i, log, dsum, target, dx.data() + i * of.width, dtable);
    }
    sums.give(call);
    if (has_gradients) give_gradients<T>(dx, call.results[1], dtable, call.results[2]);
  });
}

void vocab_logs(const KernelCall& call) {
  const std::int64_t pieces = call.results[1].shape.back();
  for_floating(call.operands[0].dtype, [&]<typename T>() {
    using W = Wide<T>;
    LogitsOfToken<T> of(call);
    for (std::int64_t i = 0; i < call.operands[2].count(); ++i) {
      of.compute(i);
      const std::int64_t target = call.operands[2].as<std::int32_t>()[i] - of.first;
      const bool is_here = target >= 0 && target < of.vocabulary;
      call.results[0].as<W>()[i] = is_here ? static_cast<W>(of.logits[static_cast<std::size_t>(target)]) : W(0);
      W* const logs = call.results[1].as<W>() + i * pieces;
      std::fill_n(logs, pieces, -std::numeric_limits<W>::infinity());
      logs[0] = static_cast<W>(log_sum_exp(of.logits.data(), of.vocabulary));
    }
  });
}

void vocab_loss_grad(const KernelCall& call) {
  const double dsum = load_scalar(call.operands[4]);
  const std::int64_t pieces = call.operands[5].shape.back();
  for_floating(call.operands[0].dtype, [&]<typename T>() {
    LogitsOfToken<T> of(call);
    std::vector<double> dx(static_cast<std::size_t>(call.operands[0].count())), dtable(static_cast<std::size_t>(call.operands[1].count()));
    for (std::int64_t i = 0; i < call.operands[2].count(); ++i) {
      if (call.operands[3].as<std::int32_t>()[i] == 0) continue;
      of.compute(i);
      const double log = log_sum_exp(call.operands[5].as<Wide<T>>() + i * pieces, pieces);
      of.add_gradients(i, log, dsum, call.operands[2].as<std::int32_t>()[i] - of.first, dx.data() + i * of.width, dtable);
    }
    give_gradients<T>(dx, call.results[0], dtable, call.results[1]);
  });
}

}  // namespace

Kernel find_vocabulary(graph::Op op) {
  switch (op) {
    case graph::Op::embed: return embed;
    case graph::Op::embed_grad: return embed_grad;
    case graph::Op::embed_add: return embed_add;
    case graph::Op::positions: return positions;
    case graph::Op::cross_entropy: return cross_entropy;
    case graph::Op::vocab_scores: return vocab_scores;
    case graph::Op::cross_entropy_of_scores: return cross_entropy_of_scores;
    case graph::Op::cross_entropy_grad: return cross_entropy_grad;
    case graph::Op::vocab_loss: return vocab_loss;
    case graph::Op::vocab_logs: return vocab_logs;
    case graph::Op::vocab_loss_grad: return vocab_loss_grad;
    default: return nullptr;
  }
}

}  // namespace moesh::backend::reference
