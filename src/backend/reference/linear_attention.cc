// Gated linear attention, one token at a time.
// Shape suffixes: B rows, S length, G heads of keys, R heads of values for each, D a key's width, V a value's width, W tokens of a window.
#include <cmath>
#include <vector>

#include "backend/element.h"
#include "backend/reference/kernels.h"
#include "graph/segments.h"

namespace moesh::backend::reference {
namespace {

struct Convolved {
  std::int64_t B, S, W, C;

  explicit Convolved(const KernelCall& call)
      : B(call.operands[0].size(0)), S(call.operands[0].size(1)), W(call.operands[1].size(0)),
        C(call.operands[1].count() / std::max<std::int64_t>(1, W)) {}
};

// The last inputs of a row, the latest one at the end.
template <typename W>
class LastInputs {
 public:
  LastInputs(std::int64_t width, std::int64_t channels) : channels_(channels), all_(static_cast<std::size_t>(width * channels)) {}

  W& at(std::int64_t i, std::int64_t channel) { return all_[static_cast<std::size_t>(i * channels_ + channel)]; }
  void clear() { std::fill(all_.begin(), all_.end(), W(0)); }
  void advance() {
    std::move(all_.begin() + channels_, all_.end(), all_.begin());
    std::fill(all_.end() - channels_, all_.end(), W(0));
  }

 private:
  std::int64_t channels_;
  std::vector<W> all_;
};

void causal_conv(const KernelCall& call) {
  const Convolved n(call);
  const bool keeps = call.results.size() > 1;
  for_floating(call.operands[0].dtype, [&]<typename T>() {
    const T *x = call.operands[0].as<T>(), *weights = call.operands[1].as<T>();
    for (std::int64_t b = 0; b < n.B; ++b) {
      LastInputs<Wide<T>> window(n.W, n.C);  // the inputs before a token, and its own
      const std::int64_t kept = n.W - 1;
      for (std::int64_t i = 0; keeps && i < kept * n.C; ++i)
        window.at(i / n.C, i % n.C) = load(call.operands[2].as<T>()[b * kept * n.C + i]);
      for (std::int64_t s = 0; s < n.S; ++s) {
        const std::int64_t token = b * n.S + s;
        const bool is_padding = keeps && graph::is_padding(call.operands[4].as<std::int32_t>()[token]);
        if (keeps && !is_padding && call.operands[3].as<std::int32_t>()[token] == 0) window.clear();
        for (std::int64_t c = 0; c < n.C; ++c) {
          window.at(kept, c) = load(x[token * n.C + c]);
          Wide<T> sum = 0;
          for (std::int64_t i = 0; i < n.W; ++i) sum += window.at(i, c) * load(weights[i * n.C + c]);
          call.results[0].as<T>()[token * n.C + c] = store<T>(sum);
        }
        if (!is_padding) window.advance();
      }
      for (std::int64_t i = 0; keeps && i < kept * n.C; ++i)
        call.results[1].as<T>()[b * kept * n.C + i] = store<T>(window.at(i / n.C, i % n.C));
    }
  });
}

void causal_conv_grad(const KernelCall& call) {
  const Convolved n(call);
  for_floating(call.operands[0].dtype, [&]<typename T>() {
    using Sum = Wide<T>;
    const T *x = call.operands[0].as<T>(), *weights = call.operands[1].as<T>(), *dy = call.operands[2].as<T>();
    std::vector<Sum> dx(static_cast<std::size_t>(n.B * n.S * n.C)), dweights(static_cast<std::size_t>(n.W * n.C));
    for (std::int64_t i = 0; i < n.B * n.S * n.C; ++i) {
      const std::int64_t c = i % n.C, s = i / n.C % n.S;
      for (std::int64_t w = 0; w < n.W; ++w) {
        const std::int64_t back = n.W - 1 - w;
        if (back > s) continue;
        dx[static_cast<std::size_t>(i - back * n.C)] += load(dy[i]) * load(weights[w * n.C + c]);
        dweights[static_cast<std::size_t>(w * n.C + c)] += load(dy[i]) * load(x[i - back * n.C]);
      }
    }
    for (std::size_t i = 0; i < dx.size(); ++i) call.results[0].as<T>()[i] = store<T>(dx[i]);
    for (std::size_t i = 0; i < dweights.size(); ++i) call.results[1].as<T>()[i] = store<T>(dweights[i]);
  });
}

struct DeltaSizes {
  std::int64_t B, S, G, R, D, V;

  explicit DeltaSizes(const KernelCall& call)
      : B(call.operands[2].size(0)), S(call.operands[2].size(1)), G(call.operands[2].size(2)), R(call.operands[2].size(3)),
        D(call.operands[0].size(3)), V(call.operands[2].size(4)) {}
};

// One head of values of one row.
template <typename T>
class DeltaHead {
  using W = Wide<T>;

 public:
  DeltaHead(const KernelCall& call, const DeltaSizes& n, std::int64_t b, std::int64_t g, std::int64_t r)
      : call_(call), n_(n), b_(b), g_(g), r_(r) {}

  bool begins_anew(std::int64_t s) const {
    return !is_padding(s) && call_.operands[7].template as<std::int32_t>()[b_ * n_.S + s] == 0;
  }

  bool is_padding(std::int64_t s) const { return graph::is_padding(call_.operands[5].template as<std::int32_t>()[b_ * n_.S + s]); }
  W query(std::int64_t s, std::int64_t d) const { return load(call_.operands[0].template as<T>()[key_at(s) + d]); }
  W key(std::int64_t s, std::int64_t d) const { return load(call_.operands[1].template as<T>()[key_at(s) + d]); }
  W value(std::int64_t s, std::int64_t v) const { return load(call_.operands[2].template as<T>()[at(s) * n_.V + v]); }
  W keeps(std::int64_t s) const { return std::exp(call_.operands[3].template as<W>()[at(s)]); }
  W rate(std::int64_t s) const { return load(call_.operands[4].template as<T>()[at(s)]); }
  std::int64_t key_at(std::int64_t s) const { return ((b_ * n_.S + s) * n_.G + g_) * n_.D; }
  std::int64_t at(std::int64_t s) const { return ((b_ * n_.S + s) * n_.G + g_) * n_.R + r_; }  // of a value's head
  std::int64_t state_at() const { return ((b_ * n_.G + g_) * n_.R + r_) * n_.D * n_.V; }

  // By how much a token moves the memory's values of its key, once the memory, [D, V], has decayed.
  std::vector<W> correction(const std::vector<W>& memory, std::int64_t s) const {
    std::vector<W> made(static_cast<std::size_t>(n_.V));
    for (std::int64_t v = 0; v < n_.V; ++v) {
      W held = 0;
      for (std::int64_t d = 0; d < n_.D; ++d) held += memory[static_cast<std::size_t>(d * n_.V + v)] * key(s, d);
      made[static_cast<std::size_t>(v)] = rate(s) * (value(s, v) - held);
    }
    return made;
  }
  void take_token(std::vector<W>& memory, std::int64_t s) const {
    if (is_padding(s)) return;
    for (W& x : memory) x *= keeps(s);
    const std::vector<W> moved = correction(memory, s);
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] += key(s, static_cast<std::int64_t>(i) / n_.V) * moved[i % moved.size()];
  }

 private:
  const KernelCall& call_;
  const DeltaSizes& n_;
  std::int64_t b_, g_, r_;
};

// Calls body(head) for each.
template <typename T, typename Body>
void each_delta_head(const KernelCall& call, const DeltaSizes& n, const Body& body) {
  for (std::int64_t i = 0; i < n.B * n.G * n.R; ++i) body(DeltaHead<T>(call, n, i / (n.G * n.R), i / n.R % n.G, i % n.R));
}

void delta_rule(const KernelCall& call) {
  const DeltaSizes n(call);
  const bool keeps = call.results.size() > 1;
  for_floating(call.operands[0].dtype, [&]<typename T>() {
    using W = Wide<T>;
    each_delta_head<T>(call, n, [&](const DeltaHead<T>& head) {
      std::vector<W> memory(static_cast<std::size_t>(n.D * n.V));
      if (keeps) std::copy_n(call.operands[6].as<W>() + head.state_at(), memory.size(), memory.begin());
      for (std::int64_t s = 0; s < n.S; ++s) {
        if (keeps && head.begins_anew(s)) std::fill(memory.begin(), memory.end(), W(0));
        head.take_token(memory, s);
        for (std::int64_t v = 0; v < n.V; ++v) {
          W sum = 0;
          for (std::int64_t d = 0; d < n.D; ++d) sum += head.query(s, d) * memory[static_cast<std::size_t>(d * n.V + v)];
          call.results[0].as<T>()[head.at(s) * n.V + v] = store<T>(sum);
        }
      }
      if (keeps) std::copy(memory.begin(), memory.end(), call.results[1].as<W>() + head.state_at());
    });
  });
}

// Goes back through the tokens with the memory after each, and the gradient of the memory.
template <typename T>
class DeltaBackward {
  using W = Wide<T>;

 public:
  DeltaBackward(const KernelCall& call, const DeltaSizes& n)
      : call_(call), n_(n), dquery_(static_cast<std::size_t>(call.operands[0].count())), dkey_(dquery_.size()) {}

  void run() {
    each_delta_head<T>(call_, n_, [&](const DeltaHead<T>& head) {
      std::vector<std::vector<W>> before{std::vector<W>(static_cast<std::size_t>(n_.D * n_.V))};  // the memory before each token
      for (std::int64_t s = 0; s < n_.S; ++s) {
        before.push_back(before.back());
        head.take_token(before.back(), s);
      }
      std::vector<W> dmemory(before[0].size());
      for (std::int64_t s = n_.S; s-- > 0;)
        go_back(head, s, before[static_cast<std::size_t>(s)], before[static_cast<std::size_t>(s) + 1], dmemory);
    });
    for (std::size_t i = 0; i < dquery_.size(); ++i) {
      call_.results[0].template as<T>()[i] = store<T>(dquery_[i]);
      call_.results[1].template as<T>()[i] = store<T>(dkey_[i]);
    }
  }

 private:
  void go_back(const DeltaHead<T>& head, std::int64_t s, const std::vector<W>& before, const std::vector<W>& after,
               std::vector<W>& dmemory) {
    const auto dkey = [&](std::int64_t d) -> W& { return dkey_[static_cast<std::size_t>(head.key_at(s) + d)]; };
    const auto at = [&](std::int64_t d, std::int64_t v) { return static_cast<std::size_t>(d * n_.V + v); };
    T* const dvalue = call_.results[2].template as<T>() + head.at(s) * n_.V;
    W &ddecay = call_.results[3].template as<W>()[head.at(s)], drate = 0;
    ddecay = 0;
    for (std::int64_t d = 0; d < n_.D; ++d) {
      for (std::int64_t v = 0; v < n_.V; ++v) {
        const W dy = load(call_.operands[6].template as<T>()[head.at(s) * n_.V + v]);
        dquery_[static_cast<std::size_t>(head.key_at(s) + d)] += dy * after[at(d, v)];
        dmemory[at(d, v)] += dy * head.query(s, d);
      }
    }
    std::fill_n(dvalue, n_.V, store<T>(W(0)));
    if (!head.is_padding(s)) {
      std::vector<W> decayed = before;
      for (W& x : decayed) x *= head.keeps(s);
      const std::vector<W> moved = head.correction(decayed, s);
      for (std::int64_t v = 0; v < n_.V; ++v) {
        W dmoved = 0, held = 0;
        for (std::int64_t d = 0; d < n_.D; ++d) {
          dmoved += dmemory[at(d, v)] * head.key(s, d);
          held += decayed[at(d, v)] * head.key(s, d);
          dkey(d) += dmemory[at(d, v)] * moved[static_cast<std::size_t>(v)];
        }
        drate += dmoved * (head.value(s, v) - held);
        dvalue[v] = store<T>(dmoved * head.rate(s));
        for (std::int64_t d = 0; d < n_.D; ++d) {
          dkey(d) -= dmoved * head.rate(s) * decayed[at(d, v)];
          dmemory[at(d, v)] -= dmoved * head.rate(s) * head.key(s, d);
        }
      }
      for (std::size_t i = 0; i < dmemory.size(); ++i) {
        ddecay += dmemory[i] * decayed[i];
        dmemory[i] *= head.keeps(s);
      }
    }
    call_.results[4].template as<T>()[head.at(s)] = store<T>(drate);
  }

  const KernelCall& call_;
  const DeltaSizes& n_;
  std::vector<W> dquery_, dkey_;
};

void delta_rule_grad(const KernelCall& call) {
  const DeltaSizes n(call);
  for_floating(call.operands[0].dtype, [&]<typename T>() { DeltaBackward<T>(call, n).run(); });
}

}  // namespace

Kernel find_linear_attention(graph::Op op) {
  switch (op) {
    case graph::Op::causal_conv: return causal_conv;
    case graph::Op::causal_conv_grad: return causal_conv_grad;
    case graph::Op::delta_rule: return delta_rule;
    case graph::Op::delta_rule_grad: return delta_rule_grad;
    default: return nullptr;
  }
}

}  // namespace moesh::backend::reference
