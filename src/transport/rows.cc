// Moves rows to the experts and back, between the devices of a group.
#include "transport/rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>

#include "backend/cpu/row_loop.h"
#include "backend/cpu/simd.h"
#include "backend/element.h"
#include "backend/scratch_list.h"
#include "base/bytes.h"
#include "base/rounding.h"

namespace moesh::transport {
namespace {

using backend::KernelCall;
using backend::View;
using backend::Wide;
using backend::load;
using backend::store;

std::int64_t width_of(const View& rows) { return rows.size(0) == 0 ? 0 : rows.count() / rows.size(0); }

void gather(const KernelCall& call, std::span<const char>) {
  constexpr std::int64_t kBytes = 1 << 18;
  const std::int64_t each = call.operand(0, 0).count() * size_of(call.results[0].dtype);
  call.workers.parallel(call.members * each, kBytes, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t at = begin % each, bytes = std::min(end - begin, each - at);
      copy_bytes(call.results[0].raw() + begin, call.operand(0, begin / each).raw() + at, bytes);
      begin += bytes;
    }
  });
}

constexpr std::int64_t kPiece = 256;

// What devices send for some consecutive tokens: grouped by token, and for one token in the order of devices.
template <typename T>
struct Sent {
  backend::ScratchList<std::int32_t> begins;  // of each token's sums, and the end
  backend::ScratchList<const T*> sums;

  Sent(const KernelCall& call, std::int64_t first, std::int64_t count, std::int64_t width)
      : begins(static_cast<std::size_t>(count) + 1, 0) {
    const auto each = [&](const auto& visit) {
      for (std::int64_t m = 0; m < call.members; ++m) {
        const auto* tokens = call.operand(1, m).as<std::int32_t>();
        const auto* end = tokens + *call.operand(2, m).as<std::int32_t>();
        for (const auto* token = std::lower_bound(tokens, end, first); token < end && *token < first + count; ++token) {
          visit(static_cast<std::size_t>(*token - first), call.operand(0, m).as<T>() + (token - tokens) * width);
        }
      }
    };
    each([&](std::size_t token, const T*) { ++begins[token + 1]; });
    for (std::size_t t = 1; t < begins.size(); ++t) begins[t] += begins[t - 1];
    sums.resize(static_cast<std::size_t>(begins.back()));
    backend::ScratchList<std::int32_t> next(begins.begin(), begins.end() - 1);
    each([&](std::size_t token, const T* sum) { sums[static_cast<std::size_t>(next[token]++)] = sum; });
  }

  std::span<const T* const> of(std::size_t token) const {
    return {sums.data() + begins[token], static_cast<std::size_t>(begins[token + 1] - begins[token])};
  }
};

// to = the sum of the rows, of which there may be any number.
template <typename T>
[[gnu::always_inline]] inline void add_up_rows(std::span<const T* const> rows, std::int64_t width, T* __restrict to) {
  for (std::int64_t first = 0; first < width; first += kPiece) {
    const std::int64_t count = std::min(kPiece, width - first);
    Wide<T> total[kPiece];
    for (std::int64_t j = 0; j < count; ++j) total[j] = 0;
    for (const T* from : rows) {
      const T* __restrict values = from + first;
      for (std::int64_t j = 0; j < count; ++j) total[j] += load(values[j]);
    }
    for (std::int64_t j = 0; j < count; ++j) to[first + j] = store<T>(total[j]);
  }
}

template <typename T>
void scatter_rows_of(const KernelCall& call) {
  const View& out = call.results[0];
  const std::int64_t width = width_of(out);
  const backend::cpu::Isa isa = backend::cpu::chosen_isa();
  call.workers.parallel(out.size(0), backend::cpu::grain_of(width), [&](std::int64_t begin, std::int64_t end) {
    const Sent<T> sent(call, call.member * out.size(0) + begin, end - begin, width);
    backend::cpu::vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t token = begin; token < end; ++token) {
        add_up_rows<T>(sent.of(static_cast<std::size_t>(token - begin)), width, out.as<T>() + token * width);
      }
    });
  });
}

void scatter_rows(const KernelCall& call, std::span<const char>) {
  backend::for_floating(call.results[0].dtype, [&]<typename T>() { scatter_rows_of<T>(call); });
}

// Calls visit(row at the expert's device, row at the sender, number of rows, number of rows dropped after them) for each expert of
// `device`, for the rows that `sender` has for it.
template <typename Visit>
void for_exchanged(std::int64_t members, const View& counts, const View& kept_of_all, std::int64_t device, std::int64_t sender,
                   const Visit& visit) {
  const std::int64_t experts = counts.size(1), here = experts / members;
  const auto* sent = counts.as<std::int32_t>() + sender * experts;
  const auto* kept = kept_of_all.as<std::int32_t>();
  std::int64_t there = 0;
  std::int64_t at_sender = std::accumulate(sent, sent + device * here, std::int64_t{0});
  for (std::int64_t e = device * here; e < (device + 1) * here; ++e) {
    std::int64_t place = there;
    for (std::int64_t m = 0; m < members; ++m) {
      if (m < sender) place += kept[m * experts + e];
      there += kept[m * experts + e];
    }
    visit(place, at_sender, kept[sender * experts + e], sent[e] - kept[sender * experts + e]);
    at_sender += sent[e];
  }
}

// The same for what `other` has for this device: visit(row at `other`, row here, number of rows, number of rows dropped after them).
template <typename Visit>
void for_handed(const KernelCall& call, std::int64_t other, const Visit& visit) {
  const bool is_back = std::get<graph::GroupOf>(call.attributes).back;
  for_exchanged(call.members, call.operand(1), call.operand(2), is_back ? other : call.member, is_back ? call.member : other,
                [&](std::int64_t there, std::int64_t here, std::int64_t count, std::int64_t lost) {
                  is_back ? visit(there, here, count, lost) : visit(here, there, count, std::int64_t{0});
                });
}

void exchange_rows(const KernelCall& call, std::span<const char> is_packed) {
  const View& out = call.results[0];
  if (out.size(0) == 0) return;
  const std::int64_t bytes = width_of(out) * size_of(out.dtype);
  call.workers.parallel(call.members, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t other = begin; other < end; ++other) {
      const std::byte* packed = is_packed[static_cast<std::size_t>(other)] != 0 ? call.operand(0, other).raw() : nullptr;
      for_handed(call, other, [&](std::int64_t there, std::int64_t here, std::int64_t count, std::int64_t lost) {
        std::byte* to = out.raw() + here * bytes;
        const std::byte* from = packed != nullptr ? packed : call.operand(0, other).raw() + there * bytes;
        copy_bytes(to, from, count * bytes);
        zero_bytes(to + count * bytes, lost * bytes);
        if (packed != nullptr) packed += count * bytes;
      });
    }
  });
}

// A member's rows for the tokens of one device, which are contiguous.
struct RowsOfDevice {
  std::int64_t first = 0;
  std::int64_t count = 0;

  explicit RowsOfDevice(const Handed& handed) {
    const auto* tokens = handed.operands[1].as<std::int32_t>();
    const auto* end = tokens + *handed.operands[2].as<std::int32_t>();
    const auto* begin = std::lower_bound(tokens, end, handed.to * handed.tokens);
    first = begin - tokens;
    count = std::lower_bound(begin, end, (handed.to + 1) * handed.tokens) - begin;
  }
};

std::int64_t row_bytes(const View& rows) {
  std::int64_t bytes = size_of(rows.dtype);
  for (std::size_t dim = 1; dim < rows.shape.size(); ++dim) bytes *= rows.shape[dim];
  return bytes;
}

// Calls visit(row, number of rows) for what one member sends to another in an exchange.
template <typename Visit>
void for_sent(const Handed& handed, const Visit& visit) {
  const bool is_back = handed.of.back;
  for_exchanged(handed.of.members, handed.operands[1], handed.operands[2], is_back ? handed.from : handed.to,
                is_back ? handed.to : handed.from, [&](std::int64_t there, std::int64_t here, std::int64_t count, std::int64_t) {
                  visit(is_back ? there : here, count);
                });
}

std::int64_t exchanged_bytes(const Handed& handed) {
  std::int64_t rows = 0;
  for_sent(handed, [&](std::int64_t, std::int64_t count) { rows += count; });
  return rows * row_bytes(handed.operands[0]);
}

constexpr std::int64_t kHeader = sizeof(std::int64_t);  // the number of rows, padded to the alignment

std::int64_t aligned(std::int64_t bytes) { return round_up(bytes, kHeader); }

}  // namespace

RowCollective find_row_collective(graph::Op op) {
  switch (op) {
    case graph::Op::gather: return gather;
    case graph::Op::scatter_rows: return scatter_rows;
    case graph::Op::exchange_rows: return exchange_rows;
    default: return nullptr;
  }
}

std::size_t operands_sent(graph::Op op) { return op == graph::Op::scatter_rows ? 3 : 1; }

std::int64_t handed_bytes(const Handed& handed) {
  switch (handed.op) {
    case graph::Op::gather: return handed.operands[0].count() * size_of(handed.operands[0].dtype);
    case graph::Op::scatter_rows:
      return RowsOfDevice(handed).count * (row_bytes(handed.operands[0]) + size_of(handed.operands[1].dtype));
    default: return exchanged_bytes(handed);
  }
}

std::int64_t packed_bytes(const Handed& handed) {
  if (handed.op != graph::Op::scatter_rows) return aligned(handed_bytes(handed));
  const std::int64_t rows = RowsOfDevice(handed).count;
  return kHeader + aligned(rows * row_bytes(handed.operands[0])) + aligned(rows * size_of(handed.operands[1].dtype));
}

void pack(const Handed& handed, std::byte* to) {
  const View& from = handed.operands[0];
  const std::int64_t bytes = row_bytes(from);
  if (handed.op == graph::Op::gather) {
    copy_bytes(to, from.raw(), handed_bytes(handed));
  } else if (handed.op == graph::Op::scatter_rows) {
    const RowsOfDevice rows(handed);
    const auto count = static_cast<std::int32_t>(rows.count);
    std::memcpy(to, &count, sizeof count);
    copy_bytes(to + kHeader, from.raw() + rows.first * bytes, rows.count * bytes);
    copy_bytes(to + kHeader + aligned(rows.count * bytes), handed.operands[1].as<std::int32_t>() + rows.first,
               rows.count * size_of(DType::int32));
  } else {
    for_sent(handed, [&](std::int64_t row, std::int64_t count) {
      copy_bytes(to, from.raw() + row * bytes, count * bytes);
      to += count * bytes;
    });
  }
}

const std::byte* unpack(const Handed& handed, const std::byte* from, std::span<View> operands) {
  std::byte* data = const_cast<std::byte*>(from);  // views are not const; operands are only read
  if (handed.op != graph::Op::scatter_rows) {
    operands[0].data = data;
    return from + aligned(handed_bytes(handed));
  }
  std::int32_t rows = 0;
  std::memcpy(&rows, from, sizeof rows);
  const std::int64_t bytes = row_bytes(operands[0]);
  operands[0].data = data + kHeader;
  operands[0].shape[0] = rows;
  operands[1].data = data + kHeader + aligned(rows * bytes);
  operands[1].shape[0] = rows;
  operands[2].data = data;
  return from + kHeader + aligned(rows * bytes) + aligned(rows * size_of(operands[1].dtype));
}

}  // namespace moesh::transport
