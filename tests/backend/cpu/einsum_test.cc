#include "tests/backend/cpu/kernel_support.h"

namespace moesh::backend::test {
namespace {

Call product(DType dtype, const std::string& equation, Shape a, Shape b, Shape out) {
  return {Op::einsum,
          graph::EinsumOf{equation},
          {noise(dtype, std::move(a), 1), noise(dtype, std::move(b), 2)},
          {Tensor(dtype, std::move(out))}};
}

struct Case {
  std::string equation;
  Shape a, b, out;
};

// All equations that the models use: projections, experts, attention, the router, and their gradients.
const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"bsm,mh->bsh", {2, 5, 33}, {33, 40}, {2, 5, 40}},
      {"bsm,mhd->bshd", {2, 7, 20}, {20, 3, 8}, {2, 7, 3, 8}},
      {"bshd,hdm->bsm", {2, 7, 3, 8}, {3, 8, 50}, {2, 7, 50}},
      {"bsh,mh->bsm", {2, 5, 40}, {33, 40}, {2, 5, 33}},
      {"bsm,bsh->mh", {2, 35, 17}, {2, 35, 19}, {17, 19}},
      {"bsm,bsh->hm", {2, 35, 17}, {2, 35, 19}, {19, 17}},
      {"ebcm,emf->ebcf", {3, 2, 9, 16}, {3, 16, 34}, {3, 2, 9, 34}},
      {"ebcf,emf->ebcm", {3, 2, 9, 34}, {3, 16, 34}, {3, 2, 9, 16}},
      {"bsm,bsec->ebcm", {2, 6, 10}, {2, 6, 3, 4}, {3, 2, 4, 10}},
      {"ebcm,bsec->bsm", {3, 2, 4, 10}, {2, 6, 3, 4}, {2, 6, 10}},
      {"bsm,ebcm->bsec", {2, 6, 10}, {3, 2, 4, 10}, {2, 6, 3, 4}},
      {"bsem,bse->bsm", {2, 6, 4, 10}, {2, 6, 4}, {2, 6, 10}},
      {"bsm,bse->bsem", {2, 6, 10}, {2, 6, 4}, {2, 6, 4, 10}},
      {"bsem,bsm->bse", {2, 6, 4, 10}, {2, 6, 10}, {2, 6, 4}},
      {"abm,abm->ab", {3, 5, 300}, {3, 5, 300}, {3, 5}},
      {"am,bm->ab", {1, 600}, {1, 600}, {1, 1}},
      {"am,mb->ab", {150, 300}, {300, 530}, {150, 530}},
      {"am,am->m", {40, 6}, {40, 6}, {6}},
      {"m,m->", {700}, {700}, {}},
  };
  return all;
}

TEST(Einsum, IsThePlainSumOnEveryEquation) {
  for (const Case& c : cases()) {
    for (const DType dtype : floating_types()) {
      SCOPED_TRACE(c.equation);
      Call call = product(dtype, c.equation, c.a, c.b, c.out);
      hold_to_plain(call);
      call.operands.push_back(noise(dtype, c.out, 3));  // the product is added to this operand
      hold_to_plain(call);
    }
  }
}

// Covers depths of several chunks, whose partial sums wait for the next one, more columns than are packed at once, and more rows than one
// task has. float32 sums of thousands of terms need a wider tolerance than sums of some hundred.
TEST(Einsum, IsThePlainSumWhenItIsDeepOrTall) {
  hold_to_plain(product(DType::float32, "am,mb->ab", {9, 9000}, {9000, 40}, {9, 40}), 3e-5);
  hold_to_plain(product(DType::float32, "ma,mb->ab", {4500, 5}, {4500, 33}, {5, 33}), 3e-5);
  hold_to_plain(product(DType::float32, "am,mb->ab", {3, 2050}, {2050, 1600}, {3, 1600}), 3e-5);
  hold_to_plain(product(DType::float32, "am,mb->ab", {4300, 4200}, {4200, 2}, {4300, 2}), 3e-5);
  hold_to_plain(product(DType::bfloat16, "am,mb->ab", {3, 5000}, {5000, 600}, {3, 600}));
}

// These sizes cover the edges of blocks, panels, tiles and chunks of all instruction sets; operands come in all four layouts.
TEST(Einsum, IsThePlainSumAtEveryEdge) {
  const std::int64_t depths[] = {1, 2, 31, 32, 33, 64, 255, 256, 257, 300, 512, 513, 1024, 1025};
  std::size_t turn = 0;
  for (const std::string equation : {"am,mb->ab", "am,bm->ab", "ma,mb->ab", "ma,bm->ab"}) {
    for (const std::int64_t rows : {1, 5, 6, 7, 12, 13, 14, 15, 16, 17, 28, 29, 32, 33, 85}) {
      for (const std::int64_t columns : {1, 4, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 129}) {
        const std::int64_t depth = depths[turn++ % std::size(depths)];
        SCOPED_TRACE(fmt::format("{}: {} rows, {} columns, {} deep", equation, rows, columns, depth));
        const Shape a = equation[0] == 'a' ? Shape{rows, depth} : Shape{depth, rows};
        const Shape b = equation[3] == 'm' ? Shape{depth, columns} : Shape{columns, depth};
        const DType dtype = floating_types()[turn % floating_types().size()];
        Call call = product(dtype, equation, a, b, {rows, columns});
        if (turn / 3 % 2 == 0) call.operands.push_back(noise(dtype, {rows, columns}, 3));
        hold_to_plain(call);
      }
    }
  }
}

TEST(Einsum, OfNoTermsIsZeroAndOfNoRowsIsNothing) {
  const Tensors zero = run(product(DType::float32, "am,mb->ab", {3, 0}, {0, 4}, {3, 4}));
  Call added = product(DType::float32, "am,mb->ab", {3, 0}, {0, 4}, {3, 4});
  added.operands.push_back(noise(DType::float32, {3, 4}, 3));
  EXPECT_EQ(run(added)[0].bytes, added.operands[2].bytes);
  for (std::int64_t i = 0; i < 12; ++i) EXPECT_EQ(zero[0].at(i), 0);
  EXPECT_EQ(run(product(DType::float32, "am,mb->ab", {0, 5}, {5, 4}, {0, 4}))[0].count(), 0);
}

// Rows [0, rows) of a product's operand.
Tensor first_rows(const Tensor& from, std::int64_t rows) {
  Tensor made(from.dtype, {rows, from.shape[1]});
  std::memcpy(made.bytes.data(), from.bytes.data(), made.bytes.size());
  return made;
}

TEST(Einsum, GivesARowTheSameBitsHoweverManyStandBesideIt) {
  for (const cpu::Isa isa : isas_here()) {
    const With with(isa);
    for (const DType dtype : floating_types()) {
      for (const std::int64_t depth : {33, 64, 700, 5000}) {
        const Call whole = product(dtype, "am,mb->ab", {64, depth}, {depth, 70}, {64, 70});
        const Tensors all = run(whole);
        for (std::int64_t rows = 1; rows < 64; ++rows) {
          const Call part{
              Op::einsum, whole.attributes, {first_rows(whole.operands[0], rows), whole.operands[1]}, {Tensor(dtype, {rows, 70})}};
          EXPECT_EQ(run(part, 1)[0].bytes, first_rows(all[0], rows).bytes) << rows << " rows, depth " << depth << " on " << name_of(isa);
        }
      }
    }
  }
}

// Products of few rows read the other operand in strips. If no cache holds that operand, the limit is somewhat higher.
TEST(Einsum, GivesARowTheSameBitsHoweverManyReadALargeMatrix) {
  constexpr std::int64_t kDepth = 1030, kColumns = 4130, kMany = 50;
  for (const cpu::Isa isa : isas_here()) {
    const With with(isa);
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      const Call whole = product(dtype, "am,mb->ab", {kMany, kDepth}, {kDepth, kColumns}, {kMany, kColumns});
      const Tensors all = run(whole);
      for (std::int64_t rows = 1; rows <= 33; ++rows) {
        const Tensors operands{first_rows(whole.operands[0], rows), whole.operands[1]};
        const Call part{Op::einsum, whole.attributes, operands, {Tensor(dtype, {rows, kColumns})}};
        const bool are_equal = run(part, 2)[0].bytes == first_rows(all[0], rows).bytes;
        EXPECT_TRUE(are_equal) << rows << " rows of " << name_of(dtype) << " on " << name_of(isa);
      }
    }
  }
}

// Numbers so small that their products are subnormal: some instructions treat these as zeros.
TEST(Einsum, GivesARowOfSmallNumbersTheSameBits) {
  for (const cpu::Isa isa : isas_here()) {
    const With with(isa);
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      Call whole{Op::einsum,
                 graph::EinsumOf{"am,mb->ab"},
                 {noise(dtype, {40, 70}, 1, -3e-20, 3e-20), noise(dtype, {70, 50}, 2, -3e-19, 3e-19)},
                 {Tensor(DType::float32, {40, 50})}};
      const Tensors all = run(whole);
      for (const std::int64_t rows : {1, 2, 4, 5, 8}) {
        const Tensors operands{first_rows(whole.operands[0], rows), whole.operands[1]};
        const Call part{Op::einsum, whole.attributes, operands, {Tensor(DType::float32, {rows, 50})}};
        EXPECT_EQ(run(part, 1)[0].bytes, first_rows(all[0], rows).bytes) << rows << " rows on " << name_of(isa);
      }
    }
  }
}

// Several threads may divide the depth of a product of one row and few columns among them; a single thread goes through it alone.
TEST(Einsum, GivesTheSameBitsHoweverManyThreadsShareTheDepth) {
  for (const cpu::Isa isa : isas_here()) {
    const With with(isa);
    for (const DType dtype : floating_types()) {
      for (const std::int64_t columns : {64, 250, 1000, 2100}) {
        for (const std::int64_t rows : {1, 3, 8}) {
          Call call = product(dtype, "am,mb->ab", {rows, 1300}, {1300, columns}, {rows, columns});
          EXPECT_TRUE(run(call, 1)[0].bytes == run(call, 3)[0].bytes) << rows << " rows, " << columns << " columns on " << name_of(isa);
          if (rows > 1) continue;
          call.operands.push_back(noise(dtype, {rows, columns}, 7));
          EXPECT_TRUE(run(call, 1)[0].bytes == run(call, 3)[0].bytes) << "added to " << rows << " rows on " << name_of(isa);
          expect_near(run(call, 3)[0], run_plain(call)[0], dtype == DType::bfloat16 ? 0.02 : 1e-4);
        }
      }
    }
  }
}

// Columns [begin, end) of a product's operand.
Tensor some_columns(const Tensor& from, std::int64_t begin, std::int64_t end) {
  Tensor made(from.dtype, {from.shape[0], end - begin});
  const auto element = static_cast<std::size_t>(size_of(from.dtype)), bytes = static_cast<std::size_t>(end - begin) * element;
  for (std::int64_t row = 0; row < from.shape[0]; ++row) {
    std::memcpy(made.bytes.data() + static_cast<std::size_t>(row) * bytes,
                from.bytes.data() + static_cast<std::size_t>(row * from.shape[1] + begin) * element, bytes);
  }
  return made;
}

TEST(Einsum, GivesAColumnTheSameBitsWhereverItStands) {
  for (const cpu::Isa isa : isas_here()) {
    const With with(isa);
    for (const DType dtype : floating_types()) {
      for (const std::int64_t rows : {3, 50, 100}) {
        const Call whole = product(dtype, "am,mb->ab", {rows, 1100}, {1100, 70}, {rows, 70});
        const Tensors all = run(whole);
        for (const std::int64_t begin : {0, 1, 17, 40}) {
          for (const std::int64_t end : {41, 49, 57, 70}) {
            const Tensor b = some_columns(whole.operands[1], begin, end);
            const Call part{Op::einsum, whole.attributes, {whole.operands[0], b}, {Tensor(dtype, {rows, end - begin})}};
            EXPECT_EQ(run(part)[0].bytes, some_columns(all[0], begin, end).bytes)
                << rows << " rows, columns " << begin << " to " << end << " of " << name_of(dtype) << " on " << name_of(isa);
          }
        }
      }
    }
  }
}

TEST(Einsum, GivesARowTheSameBitsWhereverTasksPartTheRows) {
  for (const cpu::Isa isa : isas_here()) {
    const With with(isa);
    for (const DType dtype : floating_types()) {
      const Call whole = product(dtype, "am,mb->ab", {1300, 90}, {90, 300}, {1300, 300});
      const Tensors all = run(whole, 2);
      const Call part{Op::einsum, whole.attributes, {first_rows(whole.operands[0], 700), whole.operands[1]}, {Tensor(dtype, {700, 300})}};
      EXPECT_EQ(run(part, 1)[0].bytes, first_rows(all[0], 700).bytes) << name_of(dtype) << " on " << name_of(isa);
    }
  }
}

// The transposed matrix: to[j][i] = from[i][j].
Tensor turned(const Tensor& from) {
  Tensor made(from.dtype, {from.shape[1], from.shape[0]});
  const auto element = static_cast<std::size_t>(size_of(from.dtype));
  for (std::int64_t i = 0; i < from.shape[0]; ++i) {
    for (std::int64_t j = 0; j < from.shape[1]; ++j) {
      std::memcpy(made.bytes.data() + static_cast<std::size_t>(j * from.shape[0] + i) * element,
                  from.bytes.data() + static_cast<std::size_t>(i * from.shape[1] + j) * element, element);
    }
  }
  return made;
}

// Rows that must be transposed may be kept for all columns, in several bands of rows and chunks of the depth.
TEST(Einsum, GivesTheSameBitsHoweverItsOperandsLie) {
  struct Size {
    std::int64_t rows, columns, depth;
  };
  for (const cpu::Isa isa : isas_here()) {
    const With with(isa);
    std::vector<Size> sizes{{40, 1100, 600}, {70, 700, 3200}, {33, 600, 1500}};
    if (isa == isas_here().back()) sizes.push_back({1300, 1000, 1600});
    for (const DType dtype : floating_types()) {
      for (const auto& [rows, columns, depth] : sizes) {
        SCOPED_TRACE(fmt::format("{} rows, {} columns, {} deep of {} on {}", rows, columns, depth, name_of(dtype), name_of(isa)));
        const DType result = dtype == DType::bfloat16 ? DType::float32 : dtype;
        const Tensor a = noise(dtype, {rows, depth}, 1), b = noise(dtype, {depth, columns}, 2);
        const auto made = [&](const std::string& equation, const Tensor& left, const Tensor& right) {
          return run({Op::einsum, graph::EinsumOf{equation}, {left, right}, {Tensor(result, {rows, columns})}}, 2)[0].bytes;
        };
        const auto bits = made("am,mb->ab", a, b);
        EXPECT_TRUE(made("ma,mb->ab", turned(a), b) == bits);
        EXPECT_TRUE(made("am,bm->ab", a, turned(b)) == bits);
        EXPECT_TRUE(made("ma,bm->ab", turned(a), turned(b)) == bits);
      }
    }
  }
}

TEST(Einsum, GivesAnElementTheSameBitsInAnyPlaceOfABatch) {
  const Call whole = product(DType::float32, "eam,emb->eab", {3, 4, 600}, {3, 600, 35}, {3, 4, 35});
  const Tensors all = run(whole);
  Tensor a(DType::float32, {4, 600}), b(DType::float32, {600, 35});
  std::memcpy(a.bytes.data(), whole.operands[0].bytes.data() + 2 * a.bytes.size(), a.bytes.size());
  std::memcpy(b.bytes.data(), whole.operands[1].bytes.data() + 2 * b.bytes.size(), b.bytes.size());
  const Tensors one = run({Op::einsum, graph::EinsumOf{"am,mb->ab"}, {a, b}, {Tensor(DType::float32, {4, 35})}});
  EXPECT_EQ(0, std::memcmp(one[0].bytes.data(), all[0].bytes.data() + 2 * one[0].bytes.size(), one[0].bytes.size()));
}

// Large results may be written with non-temporal stores.
TEST(Einsum, GivesARowTheSameBitsInALargeResult) {
  constexpr std::int64_t kRows = 2112, kSome = 40, kColumns = 2048;
  for (const cpu::Isa isa : isas_here()) {
    const With with(isa);
    for (const DType dtype : {DType::bfloat16, DType::float32}) {
      for (const std::int64_t depth : {33, 1056}) {
        Call whole = product(DType::bfloat16, "am,mb->ab", {kRows, depth}, {depth, kColumns}, {});
        whole.results = {Tensor(dtype, {kRows, kColumns})};
        const Call part{
            Op::einsum, whole.attributes, {first_rows(whole.operands[0], kSome), whole.operands[1]}, {Tensor(dtype, {kSome, kColumns})}};
        EXPECT_EQ(run(part)[0].bytes, first_rows(run(whole)[0], kSome).bytes) << name_of(isa) << ", " << depth << " deep";
      }
    }
  }
}

// A part of a dim of the second operand, at its start, inside and at its end: the same bits as with a copy of that part.
TEST(Einsum, ReadsAPartOfItsSecondOperandInPlace) {
  for (const Case& c : cases()) {
    for (std::size_t dim = 0; dim < c.b.size(); ++dim) {
      for (const std::int64_t begin : {0, 3, 5}) {
        for (const DType dtype : floating_types()) {
          SCOPED_TRACE(fmt::format("{} dim {} from {}", c.equation, dim, begin));
          Call call = product(dtype, c.equation, c.a, c.b, c.out);
          const Tensor part = call.operands[1];
          Shape larger = c.b;
          larger[dim] += 5;
          call.operands[1] = noise(dtype, larger, 4);
          std::int64_t inner = 1;
          for (std::size_t d = dim + 1; d < c.b.size(); ++d) inner *= c.b[d];
          const std::int64_t run_of_part = c.b[dim] * inner, run_of_all = larger[dim] * inner;
          for (std::int64_t i = 0; i < part.count(); ++i)
            call.operands[1].set(i / run_of_part * run_of_all + begin * inner + i % run_of_part, part.at(i));
          Call of_copy = call;
          of_copy.operands[1] = part;
          std::get<graph::EinsumOf>(call.attributes).part_dim = static_cast<int>(dim);
          std::get<graph::EinsumOf>(call.attributes).part_begin = begin;
          std::get<graph::EinsumOf>(call.attributes).part_size = c.b[dim];
          hold_to_plain(call);
          EXPECT_EQ(run(call)[0].bytes, run(of_copy)[0].bytes);
        }
      }
    }
  }
}

TEST(Einsum, OfBfloat16MayHaveAFloat32Result) {
  Call call = product(DType::bfloat16, "am,mb->ab", {5, 300}, {300, 20}, {5, 20});
  call.results = {Tensor(DType::float32, {5, 20})};
  hold_to_plain(call);
  const Call wide{Op::einsum,
                  call.attributes,
                  {converted(call.operands[0], DType::float32), converted(call.operands[1], DType::float32)},
                  call.results};
  expect_near(run(call)[0], run(wide)[0], 1e-6);  // bfloat16 instructions accumulate in another order
}

}  // namespace
}  // namespace moesh::backend::test
