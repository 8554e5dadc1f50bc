// Looking tokens up, and the loss over the vocabulary. Shape suffixes: V vocabulary, M embedding.
#include <cmath>
#include <cstring>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "run/cpu/element.h"
#include "run/plain/plain.h"
#include "run/plain/scalar.h"

namespace moesh::run::plain {
namespace {

using cpu::for_floating;
using cpu::load;
using cpu::store;
using cpu::Wide;

std::int64_t checked(std::int32_t token, std::int64_t vocabulary) {
  if (token >= 0 && token < vocabulary) return token;
  fail(fmt::format("token {}, the vocabulary has {}", token, vocabulary), "the batch", "use data that belongs to this model");
}

void embed(const KernelCall& call) {
  const View& table = call.operands[0];
  const std::int64_t width = table.size(1) * size_of(table.dtype);
  const bool in_pieces = !call.origins.empty();
  for (std::int64_t i = 0; i < call.operands[1].count(); ++i) {
    const std::int32_t token = call.operands[1].as<std::int32_t>()[i];
    const std::int64_t row = in_pieces ? token - call.origins[0][0] : checked(token, table.size(0));
    std::byte* to = call.results[0].raw() + i * width;
    if (row >= 0 && row < table.size(0)) {
      std::memcpy(to, table.raw() + row * width, static_cast<std::size_t>(width));
    } else {
      std::memset(to, 0, static_cast<std::size_t>(width));  // another piece has it
    }
  }
}

void embed_grad(const KernelCall& call) {
  const View& table = call.results[0];
  const std::int64_t width = table.size(1);
  for_floating(table.dtype, [&]<typename T>() {
    std::vector<Wide<T>> sums(static_cast<std::size_t>(table.count()), 0);
    for (std::int64_t i = 0; i < call.operands[0].count(); ++i) {
      const std::int64_t token = checked(call.operands[0].as<std::int32_t>()[i], table.size(0));
      for (std::int64_t m = 0; m < width; ++m) {
        sums[static_cast<std::size_t>(token * width + m)] += load(call.operands[1].as<T>()[i * width + m]);
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i) table.as<T>()[i] = store<T>(sums[i]);
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

void cross_entropy(const KernelCall& call) {
  const double z_loss = std::get<graph::CrossEntropyOf>(call.attributes).z_loss;
  const View& logits = call.operands[0];
  const std::int64_t width = logits.shape.back();
  for_floating(logits.dtype, [&]<typename T>() {
    double sum = 0;
    double count = 0;
    for (std::int64_t i = 0; i < call.operands[1].count(); ++i) {
      if (call.operands[2].as<std::int32_t>()[i] == 0) continue;
      const T* row = logits.as<T>() + i * width;
      const double normaliser = log_sum_exp(row, width);
      const std::int64_t target = checked(call.operands[1].as<std::int32_t>()[i], width);
      sum += normaliser - static_cast<double>(load(row[target])) + z_loss * normaliser * normaliser;
      count += 1;
    }
    store_scalar(call.results[0], sum);
    store_scalar(call.results[1], count);
  });
}

void cross_entropy_grad(const KernelCall& call) {
  const double z_loss = std::get<graph::CrossEntropyOf>(call.attributes).z_loss;
  const View& logits = call.operands[0];
  const std::int64_t width = logits.shape.back();
  const double dsum = load_scalar(call.operands[3]);
  for_floating(logits.dtype, [&]<typename T>() {
    for (std::int64_t i = 0; i < call.operands[1].count(); ++i) {
      const T* row = logits.as<T>() + i * width;
      T* out = call.results[0].as<T>() + i * width;
      const double weight = call.operands[2].as<std::int32_t>()[i] == 0 ? 0 : dsum;
      const double normaliser = log_sum_exp(row, width);
      for (std::int64_t v = 0; v < width; ++v) {
        const double p = std::exp(static_cast<double>(load(row[v])) - normaliser);
        const double hit = v == call.operands[1].as<std::int32_t>()[i] ? 1 : 0;
        out[v] = store<T>(weight * (p * (1 + 2 * z_loss * normaliser) - hit));
      }
    }
  });
}

}  // namespace

Kernel find_vocabulary(graph::Op op) {
  switch (op) {
    case graph::Op::embed: return embed;
    case graph::Op::embed_grad: return embed_grad;
    case graph::Op::cross_entropy: return cross_entropy;
    case graph::Op::cross_entropy_grad: return cross_entropy_grad;
    default: return nullptr;
  }
}

}  // namespace moesh::run::plain
