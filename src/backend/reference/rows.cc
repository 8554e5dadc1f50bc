// Rows on their way to the experts and back: the part that one device of a group does by itself.
// Shape suffixes: T tokens of a device, K choices per token, R rows sorted by expert, P tokens that have rows here, E experts here.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "backend/element.h"
#include "backend/reference/kernels.h"
#include "backend/scalar.h"

namespace moesh::backend::reference {
namespace {


std::int64_t row_bytes(const View& rows) {
  return rows.size(0) == 0 ? 0 : rows.count() / rows.size(0) * size_of(rows.dtype);
}

void copy_row(const View& from, std::int64_t row, const View& to, std::int64_t to_row) {
  const std::int64_t bytes = row_bytes(from);
  std::memcpy(to.raw() + to_row * bytes, from.raw() + row * bytes, static_cast<std::size_t>(bytes));
}

void device_index(const KernelCall& call) { *call.results[0].as<std::int32_t>() = static_cast<std::int32_t>(call.member); }

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
  const auto* order = call.operands[1].as<std::int32_t>();
  for (std::int64_t row = 0; row < call.results[0].size(0); ++row) {
    copy_row(call.operands[0], order[row] / choices_of(call), call.results[0], row);
  }
}

// sums += weight * row, in the wide type.
template <typename T>
void add_row(const View& rows, std::int64_t row, double weight, Wide<T>* sums) {
  const std::int64_t width = rows.count() / rows.size(0);
  for (std::int64_t j = 0; j < width; ++j) sums[j] += static_cast<Wide<T>>(weight) * load(rows.as<T>()[row * width + j]);
}

void return_rows(const KernelCall& call) {
  const View& rows = call.operands[0];
  const View& out = call.results[0];
  const bool is_weighted = call.operands.size() == 4;
  for_floating(out.dtype, [&]<typename T>() {
    std::vector<Wide<T>> sums(static_cast<std::size_t>(out.count()), 0);
    const std::int64_t width = out.size(0) == 0 ? 0 : out.count() / out.size(0);
    for (std::int64_t row = 0; row < rows.size(0); ++row) {
      const std::int64_t token = call.operands[1].as<std::int32_t>()[row] / choices_of(call);
      add_row<T>(rows, row, is_weighted ? load_at(call.operands[3], row) : 1, sums.data() + token * width);
    }
    for (std::int64_t i = 0; i < out.count(); ++i) out.as<T>()[i] = store<T>(sums[static_cast<std::size_t>(i)]);
  });
}

void list_tokens(const KernelCall& call) {
  const auto* order = call.operands[0].as<std::int32_t>();
  const View& rows_R = call.results[2];
  auto* rows = rows_R.as<std::int32_t>();
  const auto token_of = [&](std::int32_t row) { return static_cast<std::int32_t>(order[row] / choices_of(call)); };
  std::iota(rows, rows + rows_R.count(), 0);
  std::stable_sort(rows, rows + rows_R.count(), [&](std::int32_t a, std::int32_t b) { return token_of(a) < token_of(b); });
  std::int32_t count = 0;
  for (std::int32_t i = 0; i < rows_R.count(); ++i) {
    const bool is_new = i == 0 || token_of(rows[i]) != token_of(rows[i - 1]);
    if (is_new) call.results[0].as<std::int32_t>()[count++] = token_of(rows[i]);
    call.results[1].as<std::int32_t>()[count - 1] = i + 1;
  }
  *call.results[3].as<std::int32_t>() = count;
}

void sum_rows(const KernelCall& call) {
  const View& out = call.results[0];
  const auto* rows = call.operands[1].as<std::int32_t>();
  const auto* ends = call.operands[2].as<std::int32_t>();
  const bool is_weighted = call.operands.size() == 5;
  for_floating(out.dtype, [&]<typename T>() {
    std::int32_t i = 0;
    for (std::int64_t p = 0; p < out.size(0); ++p) {
      const std::int64_t width = out.count() / out.size(0);
      std::vector<Wide<T>> sums(static_cast<std::size_t>(width), 0);
      for (; i < ends[p]; ++i) {
        add_row<T>(call.operands[0], rows[i], is_weighted ? load_at(call.operands[4], rows[i]) : 1, sums.data());
      }
      for (std::int64_t j = 0; j < width; ++j) out.as<T>()[p * width + j] = store<T>(sums[static_cast<std::size_t>(j)]);
    }
  });
}

// token_of(row): which cotangent is that of a row.
template <typename TokenOf>
void weighted_rows_grad_of(const KernelCall& call, const TokenOf& token_of) {
  const View& rows = call.operands[0];
  const std::int64_t width = rows.size(1);
  for_floating(rows.dtype, [&]<typename T>() {
    for_floating(call.operands[1].dtype, [&]<typename V>() {
      for (std::int64_t row = 0; row < rows.size(0); ++row) {
        const auto weight = static_cast<Wide<T>>(load(call.operands[1].as<V>()[row]));
        const T* const dy = call.operands[2].as<T>() + token_of(row) * width;
        Wide<T> sum = 0;
        for (std::int64_t j = 0; j < width; ++j) {
          sum += load(rows.as<T>()[row * width + j]) * load(dy[j]);
          call.results[0].as<T>()[row * width + j] = store<T>(weight * load(dy[j]));
        }
        call.results[1].as<V>()[row] = store<V>(sum);
      }
    });
  });
}

void weighted_rows_grad(const KernelCall& call) {
  weighted_rows_grad_of(call, [](std::int64_t row) { return row; });
}

void fetched_rows_grad(const KernelCall& call) {
  weighted_rows_grad_of(call, [&](std::int64_t row) { return call.operands[3].as<std::int32_t>()[row] / choices_of(call); });
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

}  // namespace

Kernel find_rows(graph::Op op) {
  switch (op) {
    case graph::Op::device_index: return device_index;
    case graph::Op::own_once: return own_once;
    case graph::Op::sort_slots: return sort_slots;
    case graph::Op::fetch_rows: return fetch_rows;
    case graph::Op::return_rows: return return_rows;
    case graph::Op::weighted_rows_grad: return weighted_rows_grad;
    case graph::Op::fetched_rows_grad: return fetched_rows_grad;
    case graph::Op::plan_exchange: return plan_exchange;
    case graph::Op::list_tokens: return list_tokens;
    case graph::Op::sum_rows: return sum_rows;
    default: return nullptr;
  }
}

}  // namespace moesh::backend::reference
