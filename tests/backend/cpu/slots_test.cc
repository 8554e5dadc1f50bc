#include "tests/backend/cpu/kernel_support.h"

namespace moesh::backend::test {
namespace {

using graph::SlotMaskOf;

const std::vector<std::int64_t>& capacities() {
  static const std::vector<std::int64_t> all{1, 5, 30};
  return all;
}

Tensor slots_of(std::int64_t capacity) {
  return run_plain({Op::slots, SlotMaskOf{16, capacity}, {draws({2, 30, 4}, 3, 16)}, {Tensor(DType::int32, {2, 30, 4})}})[0];
}

// An example from MaxText: two tokens choose experts {0, 1} and {1, 3}, each expert has one slot, and the second token loses expert 1.
TEST(Slots, AreTakenByTokenAndWhatDoesNotFitIsDropped) {
  const Tensor ids = values(DType::int32, {1, 2, 2}, {0, 1, 1, 3});
  const Tensor made = run_plain({Op::slots, SlotMaskOf{4, 1}, {ids}, {Tensor(DType::int32, {1, 2, 2})}})[0];
  EXPECT_EQ(made.bytes, values(DType::int32, {1, 2, 2}, {0, 1, -1, 3}).bytes);
}

TEST(Slots, FillingEmptyingAndProductsAreThePlainOnes) {
  for (const std::int64_t capacity : capacities()) {
    const SlotMaskOf of{16, capacity};
    const Tensor slots = slots_of(capacity);
    for (const DType dtype : floating_types()) {
      const Tensor x = noise(dtype, {2, 30, 301}, 1), y = noise(dtype, {16, 2, capacity, 301}, 2);
      hold_to_plain({Op::fill_slots, of, {x, slots}, {y}});
      hold_to_plain({Op::empty_slots, of, {y, slots}, {x}});
      for (const DType of_weights : {dtype, DType::float32}) {
        const Tensor weights = noise(of_weights, {2, 30, 4}, 3);
        hold_to_plain({Op::fill_slots, of, {x, slots, weights}, {y}});
        hold_to_plain({Op::empty_slots, of, {y, slots, weights}, {x}});
        hold_to_plain({Op::slot_products, of, {y, slots, x}, {weights}});
      }
    }
  }
}

// A shard of the slots: some of the experts, and some of the slots of each.
TEST(Slots, OfAShardAreThePlainOnes) {
  const SlotMaskOf of{16, 5};
  const Tensor slots = slots_of(5);
  const Shape begin{3, 0, 2, 0}, none{0, 0, 0};
  for (const DType dtype : floating_types()) {
    const Tensor x = noise(dtype, {2, 30, 301}, 1), y = noise(dtype, {7, 2, 2, 301}, 2), weights = noise(dtype, {2, 30, 4}, 3);
    hold_to_plain({Op::fill_slots, of, {x, slots}, {y}, 0, 1, {none, none, begin}});
    hold_to_plain({Op::fill_slots, of, {x, slots, weights}, {y}, 0, 1, {none, none, none, begin}});
    hold_to_plain({Op::empty_slots, of, {y, slots}, {x}, 0, 1, {begin, none, none}});
    hold_to_plain({Op::empty_slots, of, {y, slots, weights}, {x}, 0, 1, {begin, none, none, none}});
    hold_to_plain({Op::slot_products, of, {y, slots, x}, {weights}, 0, 1, {begin, none, none, none}});
    const Tensor all = run({Op::fill_slots, of, {x, slots}, {Tensor(dtype, {16, 2, 5, 301})}})[0];
    const Tensor shard = run({Op::fill_slots, of, {x, slots}, {y}, 0, 1, {none, none, begin}})[0];
    for (std::int64_t e = 0; e < 7; ++e) {
      for (std::int64_t b = 0; b < 2; ++b) {
        for (std::int64_t c = 0; c < 2; ++c)
          EXPECT_EQ(shard.at(((e * 2 + b) * 2 + c) * 301 + 9), all.at((((e + 3) * 2 + b) * 5 + c + 2) * 301 + 9));
      }
    }
  }
}

// Filling slots equals the product with the one-hot mask that the slots stand for. A sum has at most one term, so the result is exact.
TEST(Slots, AreWhatAMaskMultipliesWith) {
  const SlotMaskOf of{16, 3};
  const Tensor slots = slots_of(3), x = noise(DType::float64, {2, 30, 7}, 1);
  const Tensor made = run({Op::fill_slots, of, {x, slots}, {Tensor(DType::float64, {16, 2, 3, 7})}})[0];
  for (std::int64_t e = 0; e < 16; ++e) {
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t c = 0; c < 3; ++c) {
        for (std::int64_t m = 0; m < 7; ++m) {
          double sum = 0;
          for (std::int64_t i = b * 120; i < (b + 1) * 120; ++i) {
            if (slots.at(i) == static_cast<double>(e * 3 + c)) sum += x.at(i / 4 * 7 + m);
          }
          ASSERT_EQ(made.at(((e * 2 + b) * 3 + c) * 7 + m), sum);
        }
      }
    }
  }
}

}  // namespace
}  // namespace moesh::backend::test
