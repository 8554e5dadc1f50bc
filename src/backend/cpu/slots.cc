// Tokens in the capacity slots of experts: rows are copied to and from their slots, instead of products with a mask.
// Shape suffixes: B rows, S length, K choices, E experts, C slots, M width.
#include <algorithm>

#include "backend/cpu/kernels.h"
#include "backend/cpu/row_loop.h"
#include "backend/cpu/simd.h"
#include "backend/scratch_list.h"

namespace moesh::backend::cpu {
namespace {

// The row of each choice in a shard of [E, B, C]; -1 if the choice was dropped or its slot is in another shard.
class SlotRows {
 public:
  SlotRows(const KernelCall& call, const View& filled, std::size_t number)
      : of_(std::get<graph::SlotMaskOf>(call.attributes)), filled_(filled), slots_(call.operands[1]) {
    if (call.origins.empty()) return;
    first_expert_ = call.origins[number][0];
    first_slot_ = call.origins[number][2];
  }

  std::int64_t row(std::int64_t choice) const {
    const std::int64_t slot = slots_.as<std::int32_t>()[choice];
    if (slot < 0) return -1;
    const std::int64_t e = slot / of_.capacity - first_expert_;
    const std::int64_t c = slot % of_.capacity - first_slot_;
    if (e < 0 || e >= filled_.size(0) || c < 0 || c >= filled_.size(2)) return -1;
    return (e * filled_.size(1) + choice / (slots_.size(1) * slots_.size(2))) * filled_.size(2) + c;
  }

 private:
  const graph::SlotMaskOf& of_;
  const View& filled_;
  const View& slots_;
  std::int64_t first_expert_ = 0;
  std::int64_t first_slot_ = 0;
};

template <typename T, typename V>
void fill_slots_of(const KernelCall& call) {
  using W = Wide<T>;
  const View& out = call.results[0];
  const std::int64_t width = out.size(3), k = call.operands[1].size(2);
  const SlotRows rows(call, out, call.operands.size());
  ScratchList<std::int64_t> choices(static_cast<std::size_t>(out.count() / std::max<std::int64_t>(1, width)), -1);
  for (std::int64_t choice = 0; choice < call.operands[1].count(); ++choice) {
    if (const std::int64_t row = rows.row(choice); row >= 0) choices[static_cast<std::size_t>(row)] = choice;
  }
  const bool is_weighted = call.operands.size() == 3;
  const Isa isa = chosen_isa();
  call.workers.parallel(static_cast<std::int64_t>(choices.size()), grain_of(width), [&](std::int64_t begin, std::int64_t end) {
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t row = begin; row < end; ++row) {
        T* __restrict to = out.as<T>() + row * width;
        const std::int64_t choice = choices[static_cast<std::size_t>(row)];
        if (choice < 0) {
          std::fill_n(to, width, store<T>(0.0f));
          continue;
        }
        const T* __restrict from = call.operands[0].as<T>() + choice / k * width;
        if (!is_weighted) {
          std::copy_n(from, width, to);
          continue;
        }
        const W weight = static_cast<W>(load(call.operands[2].as<V>()[choice]));
        for (std::int64_t j = 0; j < width; ++j) to[j] = store<T>(weight * load(from[j]));
      }
    });
  });
}

template <typename T, typename V>
void empty_slots_of(const KernelCall& call) {
  using W = Wide<T>;
  constexpr std::int64_t kPiece = 256;
  const View& out = call.results[0];
  const std::int64_t width = out.size(2), k = call.operands[1].size(2);
  const SlotRows rows(call, call.operands[0], 0);
  const bool is_weighted = call.operands.size() == 3;
  const Isa isa = chosen_isa();
  call.workers.parallel(out.size(0) * out.size(1), grain_of(width * k), [&](std::int64_t begin, std::int64_t end) {
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t token = begin; token < end; ++token) {
        for (std::int64_t first = 0; first < width; first += kPiece) {
          const std::int64_t count = std::min(kPiece, width - first);
          W sum[kPiece] = {};
          for (std::int64_t choice = token * k; choice < (token + 1) * k; ++choice) {
            const std::int64_t row = rows.row(choice);
            if (row < 0) continue;
            const T* __restrict from = call.operands[0].as<T>() + row * width + first;
            const W weight = is_weighted ? static_cast<W>(load(call.operands[2].as<V>()[choice])) : W(1);
            for (std::int64_t j = 0; j < count; ++j) sum[j] += weight * load(from[j]);
          }
          T* __restrict to = out.as<T>() + token * width + first;
          for (std::int64_t j = 0; j < count; ++j) to[j] = store<T>(sum[j]);
        }
      }
    });
  });
}

template <typename T, typename V>
void slot_products_of(const KernelCall& call) {
  using W = Wide<T>;
  const View& out = call.results[0];
  const std::int64_t width = call.operands[2].size(2), k = out.size(2);
  const SlotRows rows(call, call.operands[0], 0);
  const Isa isa = chosen_isa();
  call.workers.parallel(out.count(), grain_of(width), [&](std::int64_t begin, std::int64_t end) {
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t choice = begin; choice < end; ++choice) {
        const std::int64_t row = rows.row(choice);
        W sum = 0;
        if (row >= 0) {
          const T* __restrict a = call.operands[0].as<T>() + row * width;
          const T* __restrict b = call.operands[2].as<T>() + choice / k * width;
          sum = sum_of<W>(width, [&](std::int64_t j) MOESH_LOOP { return load(a[j]) * load(b[j]); });
        }
        out.as<V>()[choice] = store<V>(sum);
      }
    });
  });
}

// Calls body.template operator()<T, V>() with the types of the rows and of the weights.
template <typename Body>
void for_types(DType rows, DType weights, const Body& body) {
  for_floating(rows, [&]<typename T>() { for_floating(weights, [&]<typename V>() { body.template operator()<T, V>(); }); });
}

}  // namespace

// The slots of an expert are filled in the order of tokens, and for a token in the order of its choices; each row of the batch is treated
// separately.
void slots(const KernelCall& call) {
  const auto& of = std::get<graph::SlotMaskOf>(call.attributes);
  const View& ids_BSK = call.operands[0];
  const std::int64_t choices = ids_BSK.size(1) * ids_BSK.size(2);
  const auto capacity = static_cast<std::int32_t>(of.capacity);
  call.workers.parallel(ids_BSK.size(0), grain_of(choices), [&](std::int64_t begin, std::int64_t end) {
    ScratchList<std::int32_t> taken(static_cast<std::size_t>(of.experts));
    for (std::int64_t row = begin; row < end; ++row) {
      const auto* ids = ids_BSK.as<std::int32_t>() + row * choices;
      auto* made = call.results[0].as<std::int32_t>() + row * choices;
      std::fill(taken.begin(), taken.end(), 0);
      for (std::int64_t i = 0; i < choices; ++i) {
        const std::int32_t slot = taken[static_cast<std::size_t>(ids[i])]++;
        made[i] = slot < capacity ? ids[i] * capacity + slot : -1;
      }
    }
  });
}

void fill_slots(const KernelCall& call) {
  const DType rows = call.results[0].dtype;
  for_types(rows, call.operands.size() == 3 ? call.operands[2].dtype : rows, [&]<typename T, typename V>() { fill_slots_of<T, V>(call); });
}

void empty_slots(const KernelCall& call) {
  const DType rows = call.results[0].dtype;
  for_types(rows, call.operands.size() == 3 ? call.operands[2].dtype : rows, [&]<typename T, typename V>() { empty_slots_of<T, V>(call); });
}

void slot_products(const KernelCall& call) {
  for_types(call.operands[0].dtype, call.results[0].dtype, [&]<typename T, typename V>() { slot_products_of<T, V>(call); });
}

}  // namespace moesh::backend::cpu
