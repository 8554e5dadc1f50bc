// Rows on their way to the experts and back. A device does as much as it has rows, however many devices there are.
// Shape suffixes: T tokens of a device, K choices a token, R rows sorted by expert, E experts here.
#include <algorithm>
#include <cstring>
#include <vector>

#include "run/cpu/kernels.h"
#include "run/cpu/simd.h"

namespace moesh::run::cpu {
namespace {

constexpr std::int64_t kGrain = 16384;

std::int64_t grain_of(std::int64_t width) { return 1 + kGrain / std::max<std::int64_t>(1, width); }

std::int64_t width_of(const View& rows) { return rows.size(0) == 0 ? 0 : rows.count() / rows.size(0); }

std::int64_t choices_of(const KernelCall& call) { return std::get<graph::GroupOf>(call.attributes).choices; }

// A row that a device of the group has for a token.
struct Source {
  std::int32_t member;
  std::int32_t row;
};

// The rows of all devices that belong to this one's tokens, by token: those of one stand in the order of devices, then of rows.
struct Sources {
  std::vector<std::int32_t> begins;  // of each token, and the end
  std::vector<Source> all;

  explicit Sources(const KernelCall& call) {
    const std::int64_t tokens = call.results[0].size(0);
    begins.assign(static_cast<std::size_t>(tokens) + 1, 0);
    const auto each = [&](const auto& visit) {
      const auto choices = static_cast<std::uint32_t>(choices_of(call));
      const auto first = static_cast<std::uint32_t>(call.member * tokens) * choices;
      const auto end = static_cast<std::uint32_t>(tokens) * choices;
      for (std::int64_t m = 0; m < call.members; ++m) {
        const auto* order = call.operand(1, m).as<std::int32_t>();
        const std::int64_t rows = call.operand(0, m).size(0);
        for (std::int64_t row = 0; row < rows; ++row) {
          const std::uint32_t slot = static_cast<std::uint32_t>(order[row]) - first;
          if (slot < end) visit(slot / choices, Source{static_cast<std::int32_t>(m), static_cast<std::int32_t>(row)});
        }
      }
    };
    each([&](std::size_t token, Source) { ++begins[token + 1]; });
    for (std::size_t t = 1; t < begins.size(); ++t) begins[t] += begins[t - 1];
    all.resize(static_cast<std::size_t>(begins.back()));
    std::vector<std::int32_t> next(begins.begin(), begins.end() - 1);
    each([&](std::size_t token, Source source) { all[static_cast<std::size_t>(next[token]++)] = source; });
  }
};

template <typename T, typename V>
void return_rows_of(const KernelCall& call) {
  using W = Wide<T>;
  constexpr std::int64_t kPiece = 256;
  const View& out = call.results[0];
  const std::int64_t width = width_of(out);
  const bool is_weighted = call.operands.size() / static_cast<std::size_t>(call.members) == 4;
  const Sources sources(call);
  const Isa isa = chosen_isa();
  // Adds up what the device of the first source has for the token: a sum that travels as one row, in the values' type.
  // Returns the first source behind it.
  const auto add_member = [&](const Source* source, const Source* end, std::int64_t first, std::int64_t count, W* __restrict total) MOESH_LOOP {
    W sum[kPiece] = {};
    const std::int32_t member = source->member;
    for (; source < end && source->member == member; ++source) {
      const T* __restrict row = call.operand(0, member).as<T>() + source->row * width + first;
      const W weight = is_weighted ? static_cast<W>(load(call.operand(3, member).as<V>()[source->row])) : W(1);
      for (std::int64_t j = 0; j < count; ++j) sum[j] += weight * load(row[j]);
    }
    for (std::int64_t j = 0; j < count; ++j) total[j] += load(store<T>(sum[j]));
    return source;
  };
  call.workers.parallel(out.size(0), grain_of(width * choices_of(call)), [&](std::int64_t begin, std::int64_t end) {
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t token = begin; token < end; ++token) {
        const Source* to = sources.all.data() + sources.begins[static_cast<std::size_t>(token) + 1];
        for (std::int64_t first = 0; first < width; first += kPiece) {
          const std::int64_t count = std::min(kPiece, width - first);
          W total[kPiece] = {};
          const Source* source = sources.all.data() + sources.begins[static_cast<std::size_t>(token)];
          while (source < to) source = add_member(source, to, first, count, total);
          T* __restrict made = out.as<T>() + token * width + first;
          for (std::int64_t j = 0; j < count; ++j) made[j] = store<T>(total[j]);
        }
      }
    });
  });
}

template <typename T, typename V>
void weighted_rows_grad_of(const KernelCall& call) {
  using W = Wide<T>;
  const View& rows = call.operands[0];
  const std::int64_t width = width_of(rows);
  const Isa isa = chosen_isa();
  call.workers.parallel(rows.size(0), grain_of(width), [&](std::int64_t begin, std::int64_t end) {
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t row = begin; row < end; ++row) {
        const T* __restrict from = rows.as<T>() + row * width;
        const T* __restrict dy = call.operands[2].as<T>() + row * width;
        T* __restrict drow = call.results[0].as<T>() + row * width;
        const W weight = static_cast<W>(load(call.operands[1].as<V>()[row]));
        const W sum = sum_of<W>(width, [&](std::int64_t j) MOESH_LOOP { return load(dy[j]) * load(from[j]); });
        for (std::int64_t j = 0; j < width; ++j) drow[j] = store<T>(weight * load(dy[j]));
        call.results[1].as<V>()[row] = store<V>(sum);
      }
    });
  });
}

}  // namespace

// Counted, then put in place: two passes over the choices of all tokens, and no more than that for those of other devices.
void sort_slots(const KernelCall& call) {
  const std::int32_t* ids = call.operands[0].as<std::int32_t>();
  const std::int64_t slots = call.operands[0].count();
  const View& sizes_E = call.results[1];
  const auto experts = static_cast<std::uint32_t>(sizes_E.count());
  const std::int64_t limit = std::get<graph::SortSlotsOf>(call.attributes).limit;
  const std::uint32_t first = call.operands.size() > 1 ? static_cast<std::uint32_t>(*call.operands[1].as<std::int32_t>()) * experts : 0;
  std::vector<std::int64_t> ends(experts, 0);
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    const std::uint32_t expert = static_cast<std::uint32_t>(ids[slot]) - first;
    if (expert < experts) ++ends[expert];
  }
  std::vector<std::int64_t> next(experts, 0);
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
  const std::int64_t tokens = call.operand(0).size(0);
  const auto* order = call.operand(1).as<std::int32_t>();
  call.workers.parallel(out.size(0), grain_of(bytes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t token = order[row] / choices_of(call);
      std::memcpy(out.raw() + row * bytes,
                  call.operand(0, token / tokens).raw() + token % tokens * bytes, static_cast<std::size_t>(bytes));
    }
  });
}

void return_rows(const KernelCall& call) {
  const bool is_weighted = call.operands.size() / static_cast<std::size_t>(call.members) == 4;
  for_floating(call.results[0].dtype, [&]<typename T>() {
    if (!is_weighted) return return_rows_of<T, float>(call);
    for_floating(call.operand(3).dtype, [&]<typename V>() { return_rows_of<T, V>(call); });
  });
}

void weighted_rows_grad(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() {
    for_floating(call.operands[1].dtype, [&]<typename V>() { weighted_rows_grad_of<T, V>(call); });
  });
}

}  // namespace moesh::run::cpu
