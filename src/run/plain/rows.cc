// Rows on their way to the experts and back, and the other collectives of regions: what one device of a group does, with the
// operands of all of them in reach.
// Shape suffixes: T tokens of a device, K choices a token, R rows sorted by expert, E experts here.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "run/cpu/element.h"
#include "run/plain/plain.h"

namespace moesh::run::plain {
namespace {

using cpu::for_floating;
using cpu::load;
using cpu::store;
using cpu::Wide;

std::int64_t row_bytes(const View& rows) {
  return rows.size(0) == 0 ? 0 : rows.count() / rows.size(0) * size_of(rows.dtype);
}

void copy_row(const View& from, std::int64_t row, const View& to, std::int64_t to_row) {
  const std::int64_t bytes = row_bytes(from);
  std::memcpy(to.raw() + to_row * bytes, from.raw() + row * bytes, static_cast<std::size_t>(bytes));
}

void device_index(const KernelCall& call) { *call.results[0].as<std::int32_t>() = static_cast<std::int32_t>(call.member); }

void gather(const KernelCall& call) {
  auto* to = call.results[0].raw();
  for (std::int64_t m = 0; m < call.members; ++m) {
    const View& from = call.operand(0, m);
    const std::int64_t bytes = from.count() * size_of(from.dtype);
    std::memcpy(to, from.data, static_cast<std::size_t>(bytes));
    to += bytes;
  }
}

void all_sum(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() {
    for (std::int64_t i = 0; i < call.results[0].count(); ++i) {
      Wide<T> sum = 0;
      for (std::int64_t m = 0; m < call.members; ++m) sum += load(call.operand(0, m).as<T>()[i]);
      call.results[0].as<T>()[i] = store<T>(sum);
    }
  });
}

void own_once(const KernelCall& call) {
  const auto bytes = static_cast<std::size_t>(call.results[0].count() * size_of(call.results[0].dtype));
  if (call.member == 0) {
    std::memcpy(call.results[0].data, call.operand(0).data, bytes);
  } else {
    std::memset(call.results[0].data, 0, bytes);
  }
}

void sort_slots(const KernelCall& call) {
  const View& ids_TK = call.operands[0];
  const View& order_R = call.results[0];
  const View& sizes_E = call.results[1];
  const std::int64_t limit = std::get<graph::SortSlotsOf>(call.attributes).limit;
  const std::int64_t first = call.operands.size() > 1 ? *call.operands[1].as<std::int32_t>() * sizes_E.count() : 0;
  std::int32_t kept = 0, dropped = 0;
  for (std::int64_t e = 0; e < sizes_E.count(); ++e) {
    sizes_E.as<std::int32_t>()[e] = 0;
    for (std::int64_t slot = 0; slot < ids_TK.count(); ++slot) {
      if (ids_TK.as<std::int32_t>()[slot] != first + e) continue;
      if (limit > 0 && kept == limit) {
        ++dropped;
        continue;
      }
      order_R.as<std::int32_t>()[kept++] = static_cast<std::int32_t>(slot);
      ++sizes_E.as<std::int32_t>()[e];
    }
  }
  *call.results[2].as<std::int32_t>() = dropped;
}

std::int64_t choices_of(const KernelCall& call) { return std::get<graph::GroupOf>(call.attributes).choices; }

void fetch_rows(const KernelCall& call) {
  const std::int64_t tokens = call.operand(0).size(0);
  for (std::int64_t row = 0; row < call.results[0].size(0); ++row) {
    const std::int64_t token = call.operand(1).as<std::int32_t>()[row] / choices_of(call);
    copy_row(call.operand(0, token / tokens), token % tokens, call.results[0], row);
  }
}

// What one device has for the tokens of this one: its rows of each, weighted and added up wide.
template <typename T>
std::vector<Wide<T>> sums_of_member(const KernelCall& call, std::int64_t m) {
  const View& out = call.results[0];
  const View& rows = call.operand(0, m);
  const std::int64_t tokens = out.size(0);
  const std::int64_t width = tokens == 0 ? 0 : out.count() / tokens;
  const bool is_weighted = call.operands.size() / static_cast<std::size_t>(call.members) == 4;
  std::vector<Wide<T>> sums(static_cast<std::size_t>(out.count()), 0);
  for (std::int64_t row = 0; row < rows.size(0); ++row) {
    const std::int64_t token = call.operand(1, m).as<std::int32_t>()[row] / choices_of(call) - call.member * tokens;
    if (token < 0 || token >= tokens) continue;
    Wide<T> weight = 1;
    if (is_weighted) {
      for_floating(call.operand(3, m).dtype, [&]<typename V>() { weight = static_cast<Wide<T>>(load(call.operand(3, m).as<V>()[row])); });
    }
    for (std::int64_t j = 0; j < width; ++j) {
      sums[static_cast<std::size_t>(token * width + j)] += weight * load(rows.as<T>()[row * width + j]);
    }
  }
  return sums;
}

// Devices send their sums in the values' type; the owner adds them up in the order of devices.
void return_rows(const KernelCall& call) {
  const View& out = call.results[0];
  for_floating(out.dtype, [&]<typename T>() {
    std::vector<Wide<T>> totals(static_cast<std::size_t>(out.count()), 0);
    for (std::int64_t m = 0; m < call.members; ++m) {
      const std::vector<Wide<T>> sums = sums_of_member<T>(call, m);
      for (std::size_t i = 0; i < totals.size(); ++i) totals[i] += load(store<T>(sums[i]));
    }
    for (std::int64_t i = 0; i < out.count(); ++i) out.as<T>()[i] = store<T>(totals[static_cast<std::size_t>(i)]);
  });
}

void weighted_rows_grad(const KernelCall& call) {
  const View& rows = call.operands[0];
  const std::int64_t width = rows.size(1);
  for_floating(rows.dtype, [&]<typename T>() {
    for_floating(call.operands[1].dtype, [&]<typename V>() {
      for (std::int64_t row = 0; row < rows.size(0); ++row) {
        const auto weight = static_cast<Wide<T>>(load(call.operands[1].as<V>()[row]));
        Wide<T> sum = 0;
        for (std::int64_t j = row * width; j < (row + 1) * width; ++j) {
          sum += load(rows.as<T>()[j]) * load(call.operands[2].as<T>()[j]);
          call.results[0].as<T>()[j] = store<T>(weight * load(call.operands[2].as<T>()[j]));
        }
        call.results[1].as<V>()[row] = store<V>(sum);
      }
    });
  });
}

void plan_exchange(const KernelCall& call) {
  const View& counts = call.operands[0];
  const View& kept = call.results[0];
  const View& sizes_E = call.results[1];
  const std::int64_t limit = std::get<graph::SortSlotsOf>(call.attributes).limit;
  const std::int64_t devices = counts.size(0), experts = counts.size(1), here = sizes_E.count();
  const std::int64_t first = *call.operands[1].as<std::int32_t>() * here;
  std::fill_n(sizes_E.as<std::int32_t>(), here, 0);
  std::int32_t dropped = 0;
  for (std::int64_t begin = 0; begin < experts; begin += here) {
    std::int64_t total = 0;
    for (std::int64_t from = 0; from < devices; ++from) {
      for (std::int64_t e = begin; e < begin + here; ++e) {
        const std::int32_t all = counts.as<std::int32_t>()[from * experts + e];
        const auto fits = static_cast<std::int32_t>(limit > 0 ? std::min<std::int64_t>(all, limit - total) : all);
        kept.as<std::int32_t>()[from * experts + e] = fits;
        total += fits;
        if (begin != first) continue;
        sizes_E.as<std::int32_t>()[e - begin] += fits;
        dropped += all - fits;
      }
    }
  }
  *call.results[2].as<std::int32_t>() = dropped;
}

// Calls visit(row at the expert's device, row at the sender's, how many, how many were dropped behind them) for each expert of
// a device and each sender.
template <typename Visit>
void for_exchanged(const KernelCall& call, std::int64_t device, std::int64_t sender, const Visit& visit) {
  const View& counts = call.operand(1);
  const std::int64_t experts = counts.size(1), here = experts / call.members;
  const auto* sent = counts.as<std::int32_t>() + sender * experts;
  const auto* kept = call.operand(2).as<std::int32_t>();
  std::int64_t there = 0;
  std::int64_t at_sender = std::accumulate(sent, sent + device * here, std::int64_t{0});
  for (std::int64_t e = device * here; e < (device + 1) * here; ++e) {
    std::int64_t place = there;
    for (std::int64_t m = 0; m < call.members; ++m) {
      if (m < sender) place += kept[m * experts + e];
      there += kept[m * experts + e];
    }
    visit(place, at_sender, kept[sender * experts + e], sent[e] - kept[sender * experts + e]);
    at_sender += sent[e];
  }
}

void exchange_rows(const KernelCall& call) {
  const View& out = call.results[0];
  const std::int64_t bytes = row_bytes(out);
  if (out.size(0) == 0) return;
  for (std::int64_t other = 0; other < call.members; ++other) {
    const View& from = call.operand(0, other);
    if (std::get<graph::GroupOf>(call.attributes).back) {
      for_exchanged(call, other, call.member, [&](std::int64_t there, std::int64_t here, std::int64_t count, std::int64_t lost) {
        auto* to = out.raw() + here * bytes;
        if (count > 0) std::memcpy(to, from.raw() + there * bytes, static_cast<std::size_t>(count * bytes));
        std::memset(to + count * bytes, 0, static_cast<std::size_t>(lost * bytes));
      });
    } else {
      for_exchanged(call, call.member, other, [&](std::int64_t here, std::int64_t there, std::int64_t count, std::int64_t) {
        if (count > 0) std::memcpy(out.raw() + here * bytes, from.raw() + there * bytes, static_cast<std::size_t>(count * bytes));
      });
    }
  }
}

}  // namespace

Kernel find_rows(graph::Op op) {
  switch (op) {
    case graph::Op::device_index: return device_index;
    case graph::Op::gather: return gather;
    case graph::Op::all_sum: return all_sum;
    case graph::Op::own_once: return own_once;
    case graph::Op::sort_slots: return sort_slots;
    case graph::Op::fetch_rows: return fetch_rows;
    case graph::Op::return_rows: return return_rows;
    case graph::Op::weighted_rows_grad: return weighted_rows_grad;
    case graph::Op::plan_exchange: return plan_exchange;
    case graph::Op::exchange_rows: return exchange_rows;
    default: return nullptr;
  }
}

}  // namespace moesh::run::plain
