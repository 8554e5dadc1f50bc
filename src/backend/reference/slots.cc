// Tokens in the capacity slots of experts. Shape suffixes: B rows, S length, K choices, E experts, C slots.
#include <vector>

#include "backend/element.h"
#include "backend/reference/kernels.h"
#include "backend/scalar.h"

namespace moesh::backend::reference {
namespace {

// An expert's slots are taken in the order of tokens, and within a token in the order of its choices.
void slots(const KernelCall& call) {
  const auto& of = std::get<graph::SlotMaskOf>(call.attributes);
  const View& ids = call.operands[0];
  const std::int64_t choices = ids.size(1) * ids.size(2);
  for (std::int64_t b = 0; b < ids.size(0); ++b) {
    std::vector<std::int64_t> taken(static_cast<std::size_t>(of.experts), 0);
    for (std::int64_t i = b * choices; i < (b + 1) * choices; ++i) {
      const std::int64_t expert = ids.as<std::int32_t>()[i];
      const std::int64_t slot = taken[static_cast<std::size_t>(expert)]++;
      call.results[0].as<std::int32_t>()[i] = static_cast<std::int32_t>(slot < of.capacity ? expert * of.capacity + slot : -1);
    }
  }
}

// Calls visit(choice, row of its token in [B, S], row of its slot in this shard of [E, B, C]) for the choices whose slots are in this
// shard. `filled` is the tensor that holds the slots; `number` is its index among operands and, after them, results.
template <typename Visit>
void for_slots_here(const KernelCall& call, const View& filled, std::size_t number, const Visit& visit) {
  const auto& of = std::get<graph::SlotMaskOf>(call.attributes);
  const View& slots = call.operands[1];
  const std::int64_t first_expert = call.origins.empty() ? 0 : call.origins[number][0];
  const std::int64_t first_slot = call.origins.empty() ? 0 : call.origins[number][2];
  const std::int64_t k = slots.size(2);
  for (std::int64_t i = 0; i < slots.count(); ++i) {
    const std::int32_t slot = slots.as<std::int32_t>()[i];
    if (slot < 0) continue;
    const std::int64_t e = slot / of.capacity - first_expert;
    const std::int64_t c = slot % of.capacity - first_slot;
    if (e < 0 || e >= filled.size(0) || c < 0 || c >= filled.size(2)) continue;
    const std::int64_t token = i / k;
    visit(i, token, (e * filled.size(1) + token / slots.size(1)) * filled.size(2) + c);
  }
}

double weight_of(const KernelCall& call, std::int64_t choice) {
  return call.operands.size() < 3 ? 1 : load_at(call.operands[2], choice);
}

void fill_slots(const KernelCall& call) {
  const View& out = call.results[0];
  const std::int64_t width = out.size(3);
  for_floating(out.dtype, [&]<typename T>() {
    std::fill_n(out.as<T>(), out.count(), store<T>(0.0f));
    for_slots_here(call, out, call.operands.size(), [&](std::int64_t choice, std::int64_t token, std::int64_t row) {
      const auto weight = static_cast<Wide<T>>(weight_of(call, choice));
      for (std::int64_t j = 0; j < width; ++j)
        out.as<T>()[row * width + j] = store<T>(weight * load(call.operands[0].as<T>()[token * width + j]));
    });
  });
}

void empty_slots(const KernelCall& call) {
  const View& out = call.results[0];
  const std::int64_t width = out.size(2);
  for_floating(out.dtype, [&]<typename T>() {
    std::vector<Wide<T>> sums(static_cast<std::size_t>(out.count()), 0);
    for_slots_here(call, call.operands[0], 0, [&](std::int64_t choice, std::int64_t token, std::int64_t row) {
      const auto weight = static_cast<Wide<T>>(weight_of(call, choice));
      for (std::int64_t j = 0; j < width; ++j)
        sums[static_cast<std::size_t>(token * width + j)] += weight * load(call.operands[0].as<T>()[row * width + j]);
    });
    for (std::int64_t i = 0; i < out.count(); ++i) out.as<T>()[i] = store<T>(sums[static_cast<std::size_t>(i)]);
  });
}

void slot_products(const KernelCall& call) {
  const View& out = call.results[0];
  const std::int64_t width = call.operands[2].size(2);
  for_floating(call.operands[0].dtype, [&]<typename T>() {
    for_floating(out.dtype, [&]<typename V>() {
      std::fill_n(out.as<V>(), out.count(), store<V>(0.0f));
      for_slots_here(call, call.operands[0], 0, [&](std::int64_t choice, std::int64_t token, std::int64_t row) {
        Wide<T> sum = 0;
        for (std::int64_t j = 0; j < width; ++j)
          sum += load(call.operands[0].as<T>()[row * width + j]) * load(call.operands[2].as<T>()[token * width + j]);
        out.as<V>()[choice] = store<V>(sum);
      });
    });
  });
}

}  // namespace

Kernel find_slots(graph::Op op) {
  switch (op) {
    case graph::Op::slots: return slots;
    case graph::Op::fill_slots: return fill_slots;
    case graph::Op::empty_slots: return empty_slots;
    case graph::Op::slot_products: return slot_products;
    default: return nullptr;
  }
}

}  // namespace moesh::backend::reference
