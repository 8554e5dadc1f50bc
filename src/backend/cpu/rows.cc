// Rows on their way to the experts and back. A device's work grows with its rows, not with the number of devices.
// Shape suffixes: T tokens of a device, K choices a token, R rows sorted by expert, P tokens that have rows here, E experts here.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "backend/cpu/elementwise_avx512.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/micro_kernel.h"
#include "backend/cpu/row_loop.h"
#include "backend/cpu/simd.h"
#include "backend/scratch_list.h"

namespace moesh::backend::cpu {
namespace {

std::int64_t width_of(const View& rows) { return rows.size(0) == 0 ? 0 : rows.count() / rows.size(0); }

std::int64_t choices_of(const KernelCall& call) { return std::get<graph::GroupOf>(call.attributes).choices; }

constexpr std::int64_t kPiece = 256;

// Rounds a piece of a row.
template <typename T>
void store_piece(Isa isa, const Wide<T>* from, std::int64_t count, T* to) {
#if defined(__x86_64__)
  if constexpr (std::is_same_v<T, bfloat16>) {
    if (packs_bfloat16(isa)) return round_avx512(from, count, to);
  }
#endif
  vectorised(isa, [&]() MOESH_LOOP {
    for (std::int64_t j = 0; j < count; ++j) to[j] = store<T>(from[j]);
  });
}

// Rows grouped by the result to which they are added, and the end of the rows of each result.
struct Lists {
  const std::int32_t* rows;
  const std::int32_t* ends;
};

// Each result is the sum of its rows, weighted if there are weights.
template <typename T, typename V>
void sum_listed(const KernelCall& call, const Lists& lists, const V* weights) {
  using W = Wide<T>;
  const View& out = call.results[0];
  const std::int64_t width = width_of(out);
  const T* rows = call.operands[0].as<T>();
  const auto weight_of = [&](std::int32_t row) MOESH_LOOP {
    return weights == nullptr ? W(1) : static_cast<W>(load(weights[row]));
  };
  const Isa isa = chosen_isa();
  call.workers.parallel(out.size(0), grain_of(width), [&](std::int64_t begin, std::int64_t end) {
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t to = begin; to < end; ++to) {
        const std::int32_t* from = lists.rows + (to == 0 ? 0 : lists.ends[to - 1]);
        const std::int32_t* last = lists.rows + lists.ends[to];
        for (std::int64_t first = 0; first < width; first += kPiece) {
          const std::int64_t count = std::min(kPiece, width - first);
          T* __restrict made = out.as<T>() + to * width + first;
          if (last - from == 1) {
            const T* __restrict values = rows + *from * width + first;
            const W weight = weight_of(*from);
            for (std::int64_t j = 0; j < count; ++j) made[j] = store<T>(W(0) + weight * load(values[j]));
            continue;
          }
          W sum[kPiece];
          for (std::int64_t j = 0; j < count; ++j) sum[j] = 0;
          for (const std::int32_t* row = from; row < last; ++row) {
            const T* __restrict values = rows + *row * width + first;
            const W weight = weight_of(*row);
            for (std::int64_t j = 0; j < count; ++j) sum[j] += weight * load(values[j]);
          }
          store_piece(isa, sum, count, made);
        }
      }
    });
  });
}

void sum_listed(const KernelCall& call, const Lists& lists, const View* weights) {
  for_floating(call.results[0].dtype, [&]<typename T>() {
    if (weights == nullptr) return sum_listed<T, float>(call, lists, nullptr);
    for_floating(weights->dtype, [&]<typename V>() { sum_listed<T, V>(call, lists, weights->as<V>()); });
  });
}

// token_of(row): which cotangent is that of a row.
template <typename T, typename V, typename TokenOf>
void weighted_rows_grad_of(const KernelCall& call, const TokenOf& token_of) {
  using W = Wide<T>;
  const View& rows = call.operands[0];
  const std::int64_t width = width_of(rows);
  const Isa isa = chosen_isa();
  call.workers.parallel(rows.size(0), grain_of(width), [&](std::int64_t begin, std::int64_t end) {
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t row = begin; row < end; ++row) {
        const T* from = rows.as<T>() + row * width;
        const T* dy = call.operands[2].as<T>() + token_of(row) * width;
        T* drow = call.results[0].as<T>() + row * width;
        const W weight = static_cast<W>(load(call.operands[1].as<V>()[row]));
        const W sum = sum_of<W>(width, [&](std::int64_t j) MOESH_LOOP { return load(dy[j]) * load(from[j]); });
        // `drow` may lie where `dy` or `from` does.
        for (std::int64_t first = 0; first < width; first += kPiece) {
          const std::int64_t count = std::min(kPiece, width - first);
          W piece[kPiece];
          for (std::int64_t j = 0; j < count; ++j) piece[j] = weight * load(dy[first + j]);
          store_piece(isa, piece, count, drow + first);
        }
        call.results[1].as<V>()[row] = store<V>(sum);
      }
    });
  });
}

}  // namespace

// A counting sort in two passes over the choices of all tokens; choices of experts on other devices cost nothing more than that.
void sort_slots(const KernelCall& call) {
  const std::int32_t* ids = call.operands[0].as<std::int32_t>();
  const std::int64_t slots = call.operands[0].count();
  const View& sizes_E = call.results[1];
  const auto experts = static_cast<std::uint32_t>(sizes_E.count());
  const std::int64_t limit = std::get<graph::SortSlotsOf>(call.attributes).limit;
  const std::uint32_t first = call.operands.size() > 1 ? static_cast<std::uint32_t>(*call.operands[1].as<std::int32_t>()) * experts : 0;
  ScratchList<std::int64_t> ends(experts, 0);
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    const std::uint32_t expert = static_cast<std::uint32_t>(ids[slot]) - first;
    if (expert < experts) ++ends[expert];
  }
  ScratchList<std::int64_t> next(experts, 0);
  std::int64_t total = 0, dropped = 0;
  for (std::uint32_t e = 0; e < experts; ++e) {
    const std::int64_t kept = limit > 0 ? std::min(ends[e], limit - total) : ends[e];
    sizes_E.as<std::int32_t>()[e] = static_cast<std::int32_t>(kept);
    dropped += ends[e] - kept;
    next[e] = total;
    ends[e] = total += kept;
  }
  auto* order = call.results[0].as<std::int32_t>();
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    const std::uint32_t expert = static_cast<std::uint32_t>(ids[slot]) - first;
    if (expert < experts && next[expert] < ends[expert]) order[next[expert]++] = static_cast<std::int32_t>(slot);
  }
  *call.results[2].as<std::int32_t>() = static_cast<std::int32_t>(dropped);
}

void fetch_rows(const KernelCall& call) {
  const View& out = call.results[0];
  const std::int64_t bytes = width_of(out) * size_of(out.dtype);
  const auto* order = call.operands[1].as<std::int32_t>();
  call.workers.parallel(out.size(0), grain_of(bytes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t token = order[row] / choices_of(call);
      std::memcpy(out.raw() + row * bytes, call.operands[0].raw() + token * bytes, static_cast<std::size_t>(bytes));
    }
  });
}

// Groups rows by token with a counting sort, then sums them.
void return_rows(const KernelCall& call) {
  const auto* order = call.operands[1].as<std::int32_t>();
  const auto rows = static_cast<std::int32_t>(call.operands[0].size(0));
  const auto choices = static_cast<std::int32_t>(choices_of(call));
  ScratchList<std::int32_t> ends(static_cast<std::size_t>(call.results[0].size(0)) + 1, 0);
  const auto token_of = [&](std::int32_t row) { return static_cast<std::size_t>(order[row] / choices); };
  for (std::int32_t row = 0; row < rows; ++row) ++ends[token_of(row) + 1];
  for (std::size_t t = 1; t < ends.size(); ++t) ends[t] += ends[t - 1];
  ScratchList<std::int32_t> listed(static_cast<std::size_t>(rows));
  for (std::int32_t row = 0; row < rows; ++row) listed[static_cast<std::size_t>(ends[token_of(row)]++)] = row;
  // The loop above has moved each entry of `ends` from the begin to the end of the rows of its token.
  sum_listed(call, {listed.data(), ends.data()}, call.operands.size() == 4 ? &call.operands[3] : nullptr);
}

// A radix sort by token, from the lowest digit on: the work grows with the number of rows, whichever tokens they belong to.
void list_tokens(const KernelCall& call) {
  constexpr int kBits = 8;
  const auto* order = call.operands[0].as<std::int32_t>();
  const auto choices = static_cast<std::uint32_t>(choices_of(call));
  const auto count = static_cast<std::size_t>(call.results[2].count());
  ScratchList<std::uint64_t> all(count), sorted(count);  // the token in the upper half, its row in the lower half
  std::uint64_t largest = 0;
  for (std::size_t row = 0; row < count; ++row) {
    all[row] = std::uint64_t{static_cast<std::uint32_t>(order[row]) / choices} << 32 | row;
    largest = std::max(largest, all[row]);
  }
  for (int shift = 32; shift < 64 && largest >> shift > 0; shift += kBits) {
    std::array<std::size_t, (1 << kBits) + 1> next{};
    const auto digit = [&](std::uint64_t x) { return static_cast<std::size_t>(x >> shift & ((1 << kBits) - 1)); };
    for (const std::uint64_t x : all) ++next[digit(x) + 1];
    for (std::size_t d = 1; d < next.size(); ++d) next[d] += next[d - 1];
    for (const std::uint64_t x : all) sorted[next[digit(x)]++] = x;
    all.swap(sorted);
  }
  auto* tokens = call.results[0].as<std::int32_t>();
  auto* ends = call.results[1].as<std::int32_t>();
  auto* rows = call.results[2].as<std::int32_t>();
  std::int32_t tokens_here = 0;
  for (std::size_t i = 0; i < count; ++i) {
    rows[i] = static_cast<std::int32_t>(all[i] & 0xffffffff);
    if (i == 0 || all[i] >> 32 != all[i - 1] >> 32) tokens[tokens_here++] = static_cast<std::int32_t>(all[i] >> 32);
    ends[tokens_here - 1] = static_cast<std::int32_t>(i + 1);
  }
  *call.results[3].as<std::int32_t>() = tokens_here;
}

void sum_rows(const KernelCall& call) {
  const Lists lists{call.operands[1].as<std::int32_t>(), call.operands[2].as<std::int32_t>()};
  sum_listed(call, lists, call.operands.size() == 5 ? &call.operands[4] : nullptr);
}

// The index of this device in its group.
void device_index(const KernelCall& call) { *call.results[0].as<std::int32_t>() = static_cast<std::int32_t>(call.member); }

void own_once(const KernelCall& call) {
  constexpr std::int64_t kBytes = 1 << 18;
  const bool is_owner = call.member == 0;
  call.workers.parallel(call.results[0].count() * size_of(call.results[0].dtype), kBytes, [&](std::int64_t begin, std::int64_t end) {
    const auto bytes = static_cast<std::size_t>(end - begin);
    if (is_owner) {
      std::memcpy(call.results[0].raw() + begin, call.operands[0].raw() + begin, bytes);
    } else {
      std::memset(call.results[0].raw() + begin, 0, bytes);
    }
  });
}

// A device takes rows as long as it has room: in the order of the devices that they come from, and for each of these by expert.
void plan_exchange(const KernelCall& call) {
  const View& sizes_E = call.results[1];
  const std::int64_t senders = call.operands[0].size(0), experts = call.operands[0].size(1), here = sizes_E.count();
  const std::int64_t limit = std::get<graph::SortSlotsOf>(call.attributes).limit, own = *call.operands[1].as<std::int32_t>();
  const auto* counts = call.operands[0].as<std::int32_t>();
  auto* kept = call.results[0].as<std::int32_t>();
  std::fill_n(sizes_E.as<std::int32_t>(), here, 0);
  std::int64_t dropped = 0;
  for (std::int64_t device = 0; device < experts / here; ++device) {
    std::int64_t room = limit > 0 ? limit : std::numeric_limits<std::int64_t>::max();
    for (std::int64_t i = 0; i < senders * here; ++i) {
      const std::int64_t at = i / here * experts + device * here + i % here;
      const std::int64_t fits = std::min<std::int64_t>(counts[at], room);
      room -= fits;
      kept[at] = static_cast<std::int32_t>(fits);
      if (device != own) continue;
      sizes_E.as<std::int32_t>()[i % here] += kept[at];
      dropped += counts[at] - fits;
    }
  }
  *call.results[2].as<std::int32_t>() = static_cast<std::int32_t>(dropped);
}

void weighted_rows_grad(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() {
    for_floating(call.operands[1].dtype, [&]<typename V>() {
      weighted_rows_grad_of<T, V>(call, [](std::int64_t row) MOESH_LOOP { return row; });
    });
  });
}

void fetched_rows_grad(const KernelCall& call) {
  const auto* order = call.operands[3].as<std::int32_t>();
  const std::int64_t choices = choices_of(call);
  for_floating(call.results[0].dtype, [&]<typename T>() {
    for_floating(call.operands[1].dtype, [&]<typename V>() {
      weighted_rows_grad_of<T, V>(call, [&](std::int64_t row) MOESH_LOOP { return order[row] / choices; });
    });
  });
}

}  // namespace moesh::backend::cpu
