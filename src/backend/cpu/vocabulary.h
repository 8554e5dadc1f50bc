// What the embedding and the losses over a vocabulary share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "backend/kernel.h"
#include "backend/scalar.h"
#include "backend/scratch_list.h"
#include "base/place.h"

namespace moesh::backend::cpu {

// Names row and position, so that users find the token in their data.
[[noreturn]] void fail_token(const char* what, std::int32_t token, std::int64_t index, const View& tokens, std::int64_t vocabulary);

// The logarithm of the normaliser of a row, from the logarithms of its pieces.
template <typename W>
inline W log_of_all(const W* logs, std::int64_t pieces) {
  const W largest = *std::max_element(logs, logs + pieces);
  W sum = 0;
  for (std::int64_t i = 0; i < pieces; ++i) sum += std::exp(logs[i] - largest);
  return largest + std::log(sum);
}

// The losses of tokens, and the parts of these that the z-loss makes if they are asked for, which are added up in their order. Those that
// are not set are 0.
class TokenLosses {
 public:
  TokenLosses(const KernelCall& call, std::int64_t tokens, double z_loss)
      : z_loss_(z_loss), losses_(at(tokens)), z_losses_(graph::gives_z_loss(call.results.size()) ? at(tokens) : 0) {}

  // `log`: of the normaliser.
  void set(std::int64_t token, double entropy, double log) {
    const double more = z_loss_ * log * log;
    losses_[at(token)] = entropy + more;
    if (!z_losses_.empty()) z_losses_[at(token)] = more;
  }
  void give_sums(const KernelCall& call) const {
    const auto give_sum = [](const ScratchList<double>& of, const View& to) {
      store_scalar(to, std::accumulate(of.begin(), of.end(), 0.0));
    };
    give_sum(losses_, call.results[0]);
    if (graph::gives_z_loss(call.results.size())) give_sum(z_losses_, call.results.back());
  }

 private:
  double z_loss_;
  ScratchList<double> losses_, z_losses_;
};

}  // namespace moesh::backend::cpu
