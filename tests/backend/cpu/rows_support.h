// Support for tests of rows: devices with their tokens, and the rows of the experts that are sharded over these devices.
#pragma once

#include <algorithm>

#include "tests/backend/cpu/kernel_support.h"

namespace moesh::backend::test {

using graph::GroupOf;
using graph::SortSlotsOf;

inline constexpr std::int64_t kTokens = 50;  // per device
inline constexpr std::int64_t kChoices = 3;
inline constexpr std::int64_t kExperts = 12;  // on all devices together

inline std::int64_t sum_of(const Tensor& sizes) {
  std::int64_t sum = 0;
  for (std::int64_t e = 0; e < sizes.count(); ++e) sum += static_cast<std::int64_t>(sizes.at(e));
  return sum;
}

inline Call sort(const Tensor& ids_TK, std::int64_t index, std::int64_t experts_here, std::int64_t limit) {
  return {Op::sort_slots,
          SortSlotsOf{limit},
          {ids_TK, filled(DType::int32, {}, static_cast<double>(index))},
          {Tensor(DType::int32, {limit > 0 ? limit : ids_TK.count()}), Tensor(DType::int32, {experts_here}),
           Tensor(DType::int32, {})}};
}

inline double dot(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape, b.shape);
  double sum = 0;
  for (std::int64_t i = 0; i < a.count(); ++i) sum += a.at(i) * b.at(i);
  return sum;
}

// Devices with tokens of their own, and for each device the sorted slots of its experts. Most devices have room for more rows.
struct Group {
  std::int64_t members;
  Tensors orders, sizes;

  explicit Group(std::int64_t count, std::int64_t limit = 0) : members(count) {
    const Tensor ids = draws({count * kTokens, kChoices}, 4, kExperts);
    for (std::int64_t m = 0; m < count; ++m) {
      const Tensors made = run(sort(ids, m, kExperts / count, limit));
      orders.push_back(made[0]);
      sizes.push_back(made[1]);
    }
  }

  std::int64_t rows(std::int64_t member) const { return sum_of(sizes[static_cast<std::size_t>(member)]); }

  Tensors random_tokens(DType dtype, std::int64_t width, unsigned seed) const {
    Tensors all;
    for (std::int64_t m = 0; m < members; ++m) all.push_back(noise(dtype, {kTokens, width}, seed + static_cast<unsigned>(m)));
    return all;
  }
  Tensors random_rows(DType dtype, std::int64_t width, unsigned seed) const {
    Tensors all;
    for (std::int64_t m = 0; m < members; ++m) all.push_back(noise(dtype, {rows(m), width}, seed + static_cast<unsigned>(m)));
    return all;
  }
  Tensors random_weights(DType dtype, unsigned seed) const {
    Tensors all;
    for (std::int64_t m = 0; m < members; ++m) all.push_back(noise(dtype, {rows(m)}, seed + static_cast<unsigned>(m)));
    return all;
  }

  Call gather(const Tensors& x) const {
    return {Op::gather, GroupOf{{}, members}, x, {Tensor(x[0].dtype, {members * kTokens, x[0].shape[1]})}, 0, members};
  }
  Call fetch(const Tensors& x, std::int64_t member) const {
    return {Op::fetch_rows,
            own(),
            {run(gather(x))[0], order(member), size(member)},
            {Tensor(x[0].dtype, {rows(member), x[0].shape[1]})}};
  }
  Call list(std::int64_t member) const {
    const Tensor room(DType::int32, {std::min(rows(member), members * kTokens)});
    return {Op::list_tokens,
            own(),
            {order(member), size(member)},
            {room, room, Tensor(DType::int32, {rows(member)}), Tensor(DType::int32, {})}};
  }
  Call sum(const Tensor& of_rows, std::int64_t member, const Tensors& weights = {}) const {
    const Tensors listed = run(list(member));
    Call made{Op::sum_rows, {}, {of_rows, listed[2], listed[1], listed[3]}, {}};
    if (!weights.empty()) made.operands.push_back(weights[static_cast<std::size_t>(member)]);
    made.results.emplace_back(of_rows.dtype, Shape{static_cast<std::int64_t>(listed[3].at(0)), of_rows.shape[1]});
    return made;
  }
  Call scatter(const Tensors& rows_of_all, std::int64_t member, const Tensors& weights = {}) const {
    Call made{Op::scatter_rows, GroupOf{{}, members, kChoices}, {}, {}, member, members};
    Tensors sums, tokens, counts;
    for (std::int64_t m = 0; m < members; ++m) {
      const Tensors listed = run(list(m));
      sums.push_back(run(sum(rows_of_all[static_cast<std::size_t>(m)], m, weights))[0]);
      tokens.push_back(listed[0]);
      counts.push_back(listed[3]);
    }
    for (const Tensors& of_all : {sums, tokens, counts}) made.operands.insert(made.operands.end(), of_all.begin(), of_all.end());
    made.results.emplace_back(sums[0].dtype, Shape{kTokens, sums[0].shape[1]});
    return made;
  }

 private:
  static GroupOf own() { return {{}, 1, kChoices}; }
  const Tensor& order(std::int64_t member) const { return orders[static_cast<std::size_t>(member)]; }
  const Tensor& size(std::int64_t member) const { return sizes[static_cast<std::size_t>(member)]; }
};

// return_rows for a group of one device, where a single op returns rows to their tokens.
inline Call give_back(const Group& alone, const Tensor& rows, const Tensors& weights = {}) {
  Call made{Op::return_rows,
            GroupOf{{}, 1, kChoices},
            {rows, alone.orders[0], alone.sizes[0]},
            {Tensor(rows.dtype, {kTokens, rows.shape[1]})}};
  made.operands.insert(made.operands.end(), weights.begin(), weights.end());
  return made;
}

template <typename Check>
void for_each_group(const Check& check) {
  for (const std::int64_t members : {1, 2, 4}) {
    for (const std::int64_t limit : {0, 17}) {
      const Group group(members, limit);
      for (std::int64_t m = 0; m < members; ++m) check(group, m);
    }
  }
}

}  // namespace moesh::backend::test
