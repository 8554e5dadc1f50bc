// Gated linear attention. A row is cut into chunks. What the tokens of a chunk change of the memory follows from a triangular system, so
// that everything else is a matrix product: with the memory S before a chunk, decays c_t up to each token of it, rates b, and
//   A[t][s] = b_t k_t k_s exp(c_t - c_s) for s < t,   P[t][s] = q_t k_s exp(c_t - c_s) for s <= t,
// the changes are U = (1 + A)^-1 b (v - exp(c) k S), the result is exp(c) q S + P U, and the memory after it
// exp(c_n) S + (exp(c_n - c) k)^T U.
#include <algorithm>
#include <cstdint>

#include "backend/cpu/delta_rule_memory.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/row_loop.h"
#include "backend/cpu/scratch.h"
#include "backend/cpu/simd.h"
#include "backend/cpu/workspace.h"
#include "graph/segments.h"

namespace moesh::backend::cpu {
namespace {

// A row-major matrix.
template <typename W>
struct DeltaMatrix {
  W* data = nullptr;
  std::int64_t rows = 0, columns = 0;
  bool is_transposed = false;  // is read as [columns, rows]

  DeltaMatrix transposed() const { return {data, rows, columns, !is_transposed}; }
  W* row(std::int64_t i) const { return data + i * columns; }
};

template <typename W>
void multiply_small(Isa isa, const DeltaMatrix<W>& a, const DeltaMatrix<W>& b, const DeltaMatrix<W>& c, bool adds) {
  const auto of = [](const DeltaMatrix<W>& block) -> std::pair<OffsetList, OffsetList> {
    OffsetList rows = steps(block.rows, block.columns), columns = steps(block.columns, 1);
    if (block.is_transposed) return {std::move(columns), std::move(rows)};
    return {std::move(rows), std::move(columns)};
  };
  const auto one = steps(1, 0);
  const auto [a_rows, a_columns] = of(a);
  const auto [b_rows, b_columns] = of(b);
  const auto [c_rows, c_columns] = of(c);
  multiply<W, W, W>(nullptr, isa, {a.data, one, a_rows, a_columns}, {b.data, one, b_rows, b_columns}, {c.data, one, c_rows, c_columns},
                    {.add = adds});
}

// One head of keys of a row, with its heads of values. Tasks run apart, so that nothing depends on their number or order.
template <typename T>
class DeltaHead {
  using W = Wide<T>;

 public:
  DeltaHead(const KernelCall& call, const DeltaShape& n, std::int64_t task, bool backward)
      : call_(call), isa_(chosen_isa()), n_(n), row_(task / n.G), group_(task % n.G), room_(room_of(n, backward)) {}

  void run() {
    const bool keeps = call_.results.size() > 1;
    const std::int64_t size = n_.R * n_.state(), at = (row_ * n_.G + group_) * size;
    if (keeps) {  // the memory changes where it is kept
      const W* const before = call_.operands[6].template as<W>() + at;
      room_.states = call_.results[1].template as<W>() + at;
      if (before != room_.states) std::copy_n(before, size, room_.states);
    } else {
      std::fill_n(room_.states, size, W(0));
    }
    for (std::int64_t first = 0; first < n_.S; first += count_) {
      begin_chunk(first, 0, keeps);
      multiply_keys();
      for (std::int64_t r = 0; r < n_.R; ++r) {
        mix(r);
        solve(r);
        write_results(r);
        move_on(r, state(r));
      }
    }
  }

  void run_gradient() {
    std::fill_n(room_.states, n_.R * n_.state(), W(0));
    for (std::int64_t chunk = 0; chunk < n_.chunks(); ++chunk) {
      begin_chunk(chunk * DeltaShape::C, chunk, false);
      multiply_keys();
      for (std::int64_t r = 0; r < n_.R; ++r) {
        mix(r);
        solve(r);
        if (chunk + 1 < n_.chunks()) move_on(r, state(n_.R + r));
      }
    }
    std::fill_n(room_.dstates, n_.R * n_.state(), W(0));
    for (std::int64_t chunk = n_.chunks(); chunk-- > 0;) {
      begin_chunk(chunk * DeltaShape::C, chunk, false);
      for (W* const sums : {room_.dqueries, room_.dkeys}) std::fill_n(sums, count_ * n_.D, W(0));
      std::fill_n(room_.dproducts, 2 * count_ * count_, W(0));
      for (std::int64_t r = 0; r < n_.R; ++r) {
        mix(r);
        go_back(r);
      }
      write_keys_gradients();
    }
  }

 private:
  using Of = DeltaMatrix<W>;

  static DeltaRoom<W> room_of(const DeltaShape& n, bool backward) {
    thread_local Scratch mine;
    Pieces pieces(mine.of<std::byte>(bytes_of_room<W>(n, backward)));
    return DeltaRoom<W>(pieces, n, backward);
  }

  Of of_keys(W* data) const { return {data, count_, n_.D}; }
  Of of_values(W* data) const { return {data, count_, n_.V}; }
  Of of_pairs(W* data) const { return {data, count_, count_}; }
  static Of twice(const Of& of) { return {of.data, 2 * of.rows, of.columns}; }  // with the block right behind it
  // Of the chunk at hand and, behind its own heads, of the next one.
  Of state(std::int64_t r) const { return {room_.states + (chunk_ * n_.R + r) * n_.state(), n_.D, n_.V}; }
  Of values(std::int64_t r) const { return of_values(room_.values + (chunk_ * n_.R + r) * DeltaShape::C * n_.V); }
  Of changes(std::int64_t r) const { return of_values(room_.changes + (chunk_ * n_.R + r) * DeltaShape::C * n_.V); }
  Of queries() const { return of_keys(room_.queries); }
  Of keys() const { return of_keys(room_.queries + count_ * n_.D); }
  Of products() const { return of_pairs(room_.products + chunk_ * 2 * DeltaShape::C * DeltaShape::C); }
  void multiply_into(const Of& c, const Of& a, const Of& b) const { multiply_small(isa_, a, b, c, false); }
  void multiply_onto(const Of& c, const Of& a, const Of& b) const { multiply_small(isa_, a, b, c, true); }

  std::int64_t token(std::int64_t i) const { return row_ * n_.S + first_ + i; }
  std::int64_t head_of(std::int64_t i, std::int64_t r) const { return (token(i) * n_.G + group_) * n_.R + r; }
  bool is_padding(std::int64_t i) const { return graph::is_padding(call_.operands[5].template as<std::int32_t>()[token(i)]); }
  bool begins_anew(std::int64_t i) const { return !is_padding(i) && call_.operands[7].template as<std::int32_t>()[token(i)] == 0; }

  // Rows of an operand of keys, or of values, in the wide type.
  void read_rows(std::size_t operand, std::int64_t width, std::int64_t heads, std::int64_t head, W* to) const {
    const T* const from = call_.operands[operand].template as<T>();
    vectorised(isa_, [&]() MOESH_LOOP {
      for (std::int64_t i = 0; i < count_; ++i) {
        const T* __restrict row = from + (token(i) * heads + head) * width;
        W* __restrict line = to + i * width;
        for (std::int64_t d = 0; d < width; ++d) line[d] = load(row[d]);
      }
    });
  }
  void clear_padding(const Of& rows) const {
    for (std::int64_t i = 0; i < count_; ++i) {
      if (is_padding(i)) std::fill_n(rows.row(i), rows.columns, W(0));
    }
  }
  void write_row(const W* from, std::int64_t width, T* to) const {
    vectorised(isa_, [&]() MOESH_LOOP {
      for (std::int64_t d = 0; d < width; ++d) to[d] = store<T>(from[d]);
    });
  }

  // A chunk ends before a token that begins anew. `place`: which of the kept chunks it is.
  void begin_chunk(std::int64_t first, std::int64_t place, bool keeps) {
    first_ = first;
    chunk_ = place;
    count_ = std::min(DeltaShape::C, n_.S - first);
    if (keeps) {
      if (begins_anew(0)) std::fill_n(room_.states, n_.R * n_.state(), W(0));
      for (std::int64_t i = 1; i < count_; ++i) {
        if (begins_anew(i)) count_ = i;
      }
    }
    read_rows(0, n_.D, n_.G, group_, queries().data);
    read_rows(1, n_.D, n_.G, group_, keys().data);
    clear_padding(keys());
  }

  void multiply_keys() const { multiply_into(twice(products()), twice(queries()), keys().transposed()); }

  // What follows from the decays and rates of a head of values.
  void mix(std::int64_t r) {
    const W* const decays = call_.operands[3].template as<W>();
    const T* const rates = call_.operands[4].template as<T>();
    W sum = 0;
    for (std::int64_t i = 0; i < count_; ++i) {
      sum += is_padding(i) ? W(0) : decays[head_of(i, r)];
      room_.sums[i] = sum;
      room_.rates[i] = load(rates[head_of(i, r)]);
    }
    vectorised(isa_, [&]() MOESH_LOOP {
      for (std::int64_t i = 0; i < count_; ++i) {
        W *__restrict mix = room_.mixes + i * count_, *__restrict reads = room_.reads + i * count_;
        const W *__restrict of_query = products().row(i), *__restrict of_key = products().row(count_ + i);
        const W *__restrict sums = room_.sums, own = sums[i], rate = room_.rates[i];
        for (std::int64_t s = 0; s < count_; ++s) {
          const W decay = exp_of(s <= i ? own - sums[s] : W(0));
          mix[s] = s < i ? rate * decay * of_key[s] : W(0);
          reads[s] = s <= i ? decay * of_query[s] : W(0);
        }
        const W left = exp_of(sums[count_ - 1] - own);
        W* __restrict ahead = room_.ahead + i * n_.D;
        const W* __restrict key = keys().row(i);
        for (std::int64_t d = 0; d < n_.D; ++d) ahead[d] = left * key[d];
      }
    });
  }

  // The changes of a head of values.
  void solve(std::int64_t r) {
    const Of values = this->values(r), changes = this->changes(r);
    read_rows(2, n_.V, n_.G * n_.R, group_ * n_.R + r, values.data);
    clear_padding(values);
    multiply_into(of_values(room_.read), keys(), state(r));
    vectorised(isa_, [&]() MOESH_LOOP {
      for (std::int64_t i = 0; i < count_; ++i) {  // what a token is to change, before the changes of those before it
        const W seen = exp_of(room_.sums[i]), rate = room_.rates[i];
        W *__restrict change = changes.row(i), *__restrict value = values.row(i);
        const W* __restrict held = room_.read + i * n_.V;
        for (std::int64_t v = 0; v < n_.V; ++v) {
          value[v] -= seen * held[v];
          change[v] = rate * value[v];
        }
      }
      for (std::int64_t i = 1; i < count_; ++i) subtract_mixed(changes.data, i, 0, i, room_.mixes + i * count_, 1);
    });
  }

  // Subtracts from line i of x the lines from `begin` to `end`, multiplied by weights[line * step].
  [[gnu::always_inline]] void subtract_mixed(W* x, std::int64_t i, std::int64_t begin, std::int64_t end, const W* weights,
                                             std::int64_t step) const {
    for (std::int64_t first = 0; first < n_.V; first += kLanes) {
      const std::int64_t left = std::min(kLanes, n_.V - first);
      with_constant(left == kLanes, [&](auto is_whole) MOESH_LOOP {
        const std::int64_t count = is_whole ? kLanes : left;
        W sums[kLanes] = {};
        for (std::int64_t s = begin; s < end; ++s) {
          const W weight = weights[s * step];
          const W* __restrict other = x + s * n_.V + first;
          for (std::int64_t v = 0; v < count; ++v) sums[v] += weight * other[v];
        }
        W* __restrict line = x + i * n_.V + first;
        for (std::int64_t v = 0; v < count; ++v) line[v] -= sums[v];
      });
    }
  }

  void scale_rows(W* rows, std::int64_t width, W sign) const {  // by the decays up to each, times `sign`
    vectorised(isa_, [&]() MOESH_LOOP {
      for (std::int64_t i = 0; i < count_; ++i) {
        const W seen = sign * exp_of(room_.sums[i]);
        W* __restrict row = rows + i * width;
        for (std::int64_t d = 0; d < width; ++d) row[d] *= seen;
      }
    });
  }

  void write_results(std::int64_t r) {
    const Of read = of_values(room_.read);
    multiply_into(read, queries(), state(r));
    scale_rows(read.data, n_.V, 1);
    multiply_onto(read, of_pairs(room_.reads), changes(r));
    for (std::int64_t i = 0; i < count_; ++i) write_row(read.row(i), n_.V, call_.results[0].template as<T>() + head_of(i, r) * n_.V);
  }

  void scale_state(const W* state, W* to) const {  // by the decay of a whole chunk
    const std::int64_t count = n_.state();
    vectorised(isa_, [&]() MOESH_LOOP {
      const W left = exp_of(room_.sums[count_ - 1]);
      MOESH_BY_ELEMENT
      for (std::int64_t i = 0; i < count; ++i) to[i] = left * state[i];
    });
  }

  void move_on(std::int64_t r, const Of& to) const {
    scale_state(state(r).data, to.data);
    multiply_onto(to, of_keys(room_.ahead).transposed(), changes(r));
  }

  // The gradients of a head of values, and what it adds to those of its keys and queries. dstates is of the memory behind the chunk, and
  // then of the one before it.
  void go_back(std::int64_t r) {
    const Of state = this->state(r), dstate{room_.dstates + r * n_.state(), n_.D, n_.V}, changes = this->changes(r);
    const Of dresults = of_values(room_.dresults), dvalues = of_values(dresults.row(count_)), dchanges = of_values(room_.dchanges);
    const Of scaled = of_keys(room_.scaled);
    read_rows(6, n_.V, n_.G * n_.R, group_ * n_.R + r, dresults.data);
    multiply_into(dchanges, of_pairs(room_.reads).transposed(), dresults);
    multiply_onto(dchanges, of_keys(room_.ahead), dstate);
    multiply_into(of_pairs(room_.dreads), dresults, changes.transposed());
    std::fill_n(room_.dsums, count_, W(0));
    // Through the memory behind the chunk. What it keeps of a change decays by what the whole chunk does more than the change's token.
    const W last = room_.sums[count_ - 1];
    multiply_into(scaled, changes, dstate.transposed());
    const W of_changes =
        add_scaled_keys([&](std::int64_t i) MOESH_LOOP { return exp_of(last - room_.sums[i]); }, scaled, room_.dkeys, keys(), -1);
    room_.dsums[count_ - 1] += exp_of(last) * dot(dstate.data, state.data, n_.state()) - of_changes;
    // Through the system.
    vectorised(isa_, [&]() MOESH_LOOP {
      for (std::int64_t i = count_ - 1; i-- > 0;) subtract_mixed(dchanges.data, i, i + 1, count_, room_.mixes + i, count_);
    });
    multiply_into(of_pairs(room_.dmixes), dchanges, changes.transposed());
    take_pairs(r);
    take_values(r, dvalues);
    // Through the memory before the chunk.
    multiply_into(twice(scaled), twice(dresults), state.transposed());
    add_scaled_keys([&](std::int64_t i) MOESH_LOOP { return exp_of(room_.sums[i]); }, scaled, room_.dqueries, queries(), 1);
    add_scaled_keys([&](std::int64_t i) MOESH_LOOP { return -exp_of(room_.sums[i]); }, of_keys(scaled.row(count_)), room_.dkeys, keys(), 1);
    scale_state(dstate.data, dstate.data);
    scale_rows(dresults.data, n_.V, 1);
    scale_rows(dvalues.data, n_.V, -1);
    multiply_onto(dstate, twice(queries()).transposed(), twice(dresults));
    write_decays(r);
  }

  W dot(const W* a, const W* b, std::int64_t count) const {
    W sum = 0;
    vectorised(isa_, [&]() MOESH_LOOP { sum = sum_of<W>(count, [&](std::int64_t i) MOESH_LOOP { return a[i] * b[i]; }); });
    return sum;
  }

  // `scaled`, multiplied by a factor of each token, is a gradient of keys or queries; and so, times `sign`, of the decays up to each, whose
  // sum is returned.
  template <typename Factor>
  W add_scaled_keys(const Factor& factor, const Of& scaled, W* to, const Of& of, W sign) const {
    W all = 0;
    vectorised(isa_, [&]() MOESH_LOOP {
      for (std::int64_t i = 0; i < count_; ++i) {
        const W by = factor(i);
        W *__restrict line = scaled.row(i), *__restrict sums = to + i * n_.D;
        const W* __restrict own = of.row(i);
        for (std::int64_t d = 0; d < n_.D; ++d) {
          line[d] *= by;
          sums[d] += line[d];
        }
        const W slope = sign * sum_of<W>(n_.D, [&](std::int64_t d) MOESH_LOOP { return line[d] * own[d]; });
        room_.dsums[i] += slope;
        all += slope;
      }
    });
    return all;
  }

  // Through A and P: to the products of keys and queries, to decays and to rates.
  void take_pairs(std::int64_t r) {
    T* const drates = call_.results[4].template as<T>();
    vectorised(isa_, [&]() MOESH_LOOP {
      for (std::int64_t i = 0; i < count_; ++i) {
        const W own = room_.sums[i], rate = room_.rates[i];
        const W *__restrict mix = room_.mixes + i * count_, *__restrict reads = room_.reads + i * count_;
        const W *__restrict of_key = products().row(count_ + i), *__restrict sums = room_.sums;
        const W* __restrict dreads = room_.dreads + i * count_;
        W* __restrict dmix = room_.dmixes + i * count_;
        W *__restrict dquery = room_.dproducts + i * count_, *__restrict dkey = room_.dproducts + (count_ + i) * count_;
        W* __restrict dsums = room_.dsums;
        W of_rate = 0, of_decay = 0;
        for (std::int64_t s = 0; s <= i; ++s) {
          const W decay = exp_of(own - sums[s]), down = s < i ? -dmix[s] * decay : W(0);
          dquery[s] += dreads[s] * decay;
          dkey[s] += rate * down;
          const W slope = dreads[s] * reads[s] + (s < i ? -dmix[s] * mix[s] : W(0));
          of_rate += down * of_key[s];
          of_decay += slope;
          dsums[s] -= slope;
        }
        const W *__restrict dchange = room_.dchanges + i * n_.V, *__restrict value = values(r).row(i);
        of_rate += sum_of<W>(n_.V, [&](std::int64_t v) MOESH_LOOP { return dchange[v] * value[v]; });
        room_.dsums[i] += of_decay;
        drates[head_of(i, r)] = store<T>(is_padding(i) ? W(0) : of_rate);
      }
    });
  }

  void take_values(std::int64_t r, const Of& dvalues) {
    T* const written = call_.results[2].template as<T>();
    for (std::int64_t i = 0; i < count_; ++i) {
      W* __restrict line = dvalues.row(i);
      const W* __restrict dchange = room_.dchanges + i * n_.V;
      const W rate = is_padding(i) ? W(0) : room_.rates[i];
      vectorised(isa_, [&]() MOESH_LOOP {
        for (std::int64_t v = 0; v < n_.V; ++v) line[v] = rate * dchange[v];
      });
      write_row(line, n_.V, written + head_of(i, r) * n_.V);
    }
  }

  void write_decays(std::int64_t r) const {
    W sum = 0;
    for (std::int64_t i = count_; i-- > 0;) {
      sum += room_.dsums[i];
      call_.results[3].template as<W>()[head_of(i, r)] = is_padding(i) ? W(0) : sum;
    }
  }

  void write_keys_gradients() const {
    const Of dkeys = of_keys(room_.dkeys), dqueries = of_keys(room_.dqueries), dproducts = of_pairs(room_.dproducts);
    multiply_onto(dqueries, dproducts, keys());
    const Of of_two_keys = of_pairs(dproducts.row(count_));  // such a product goes back to both
    for (std::int64_t i = 0; i < count_; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        W &one = of_two_keys.row(i)[j], &other = of_two_keys.row(j)[i];
        one = other = one + other;
      }
    }
    multiply_onto(dkeys, twice(dproducts).transposed(), twice(queries()));
    clear_padding(dkeys);
    for (std::int64_t i = 0; i < count_; ++i) {
      const std::int64_t to = (token(i) * n_.G + group_) * n_.D;
      write_row(dqueries.row(i), n_.D, call_.results[0].template as<T>() + to);
      write_row(dkeys.row(i), n_.D, call_.results[1].template as<T>() + to);
    }
  }

  const KernelCall& call_;
  Isa isa_;
  const DeltaShape& n_;
  std::int64_t row_, group_;
  DeltaRoom<W> room_;
  std::int64_t first_ = 0, count_ = 0;  // the tokens of the chunk
  std::int64_t chunk_ = 0;              // which of the kept chunks it is
};

template <typename T>
void each_key_head(const KernelCall& call, bool backward) {
  const DeltaShape n(call.operands[0].shape, call.operands[2].shape);
  call.workers.parallel(n.B * n.G, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      DeltaHead<T> head(call, n, task, backward);
      if (backward) head.run_gradient();
      else head.run();
    }
  });
}

}  // namespace

std::int64_t delta_rule_bytes(const Shape& query, const Shape& value, bool backward) {
  return bytes_of_room<float>({query, value}, backward);
}

void delta_rule(const KernelCall& call) {
  for_floating(call.operands[0].dtype, [&]<typename T>() { each_key_head<T>(call, false); });
}

void delta_rule_grad(const KernelCall& call) {
  for_floating(call.operands[0].dtype, [&]<typename T>() { each_key_head<T>(call, true); });
}

}  // namespace moesh::backend::cpu
