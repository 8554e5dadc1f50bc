// Tests of the fused loss over a vocabulary, which never holds all logits, against the plain one, which does.
#include <cmath>

#include "tests/backend/cpu/kernel_support.h"
#include "tests/support.h"

namespace moesh::backend::test {
namespace {

using graph::VocabLossOf;
using moesh::test::message_of;

struct VocabLoss {
  VocabLossOf of;
  Tensor x, table, targets, segments;

  VocabLoss(DType dtype, Shape tokens, std::int64_t vocabulary, std::int64_t width, bool by_token)
      : of{.by_token = by_token},
        x(noise(dtype, {tokens[0], tokens[1], width}, 1)),
        table(noise(dtype, by_token ? Shape{vocabulary, width} : Shape{width, vocabulary}, 2)),
        targets(draws(tokens, 3, static_cast<std::uint32_t>(vocabulary))),
        segments(filled(DType::int32, tokens, 1)) {
    for (std::int64_t i = 2; i < segments.count(); i += 5) segments.set(i, 0);
  }
  Call call(double dsum = 1.5) const {
    const DType wide = wide_of(x.dtype);
    return {Op::vocab_loss, of, {x, table, targets, segments, filled(wide, {}, dsum)}, {Tensor(wide, {}), x, Tensor(wide, table.shape)}};
  }
  // The gradient of the table in the type of x.
  Call rounding_call() const {
    Call made = call();
    made.results[2] = Tensor(x.dtype, table.shape);
    return made;
  }
  // What a device with a piece of the vocabulary computes: of its words from `first` on, whose targets may lie elsewhere.
  Call logs(std::int64_t first) const {
    const DType wide = wide_of(x.dtype);
    const Shape tokens{x.shape[0], x.shape[1]};
    return {Op::vocab_logs,         of,   {x, table, targets}, {Tensor(wide, tokens), Tensor(wide, {tokens[0], tokens[1], 1})}, 0, 1,
            origins_of(first, 5)};
  }
  Call gradients(std::int64_t first, const Tensor& logs, DType of_table) const {
    return {Op::vocab_loss_grad, of, {x, table, targets, segments, filled(wide_of(x.dtype), {}, 1.5), logs}, {x, Tensor(of_table, table.shape)},
            0,                   1,  origins_of(first, 8)};
  }
  std::vector<Shape> origins_of(std::int64_t first, std::size_t views) const {
    std::vector<Shape> made(views, Shape{0, 0, 0});
    made[1] = of.by_token ? Shape{first, 0} : Shape{0, first};
    return made;
  }
  // With the part of the loss that the z-loss makes.
  static Call in_parts(Call made) {
    made.results.emplace_back(made.results[0].dtype, Shape{});
    return made;
  }
  // The loss without gradients.
  Call alone() const {
    return {Op::vocab_loss, of, {x, table, targets, segments}, {Tensor(wide_of(x.dtype), {})}};
  }
};

TEST(VocabLoss, IsThePlainOne) {
  for (const DType dtype : floating_types()) {
    for (const bool by_token : {false, true}) {
      for (const std::int64_t vocabulary : {1, 224, 700}) {
        for (const std::int64_t width : {1, 37}) {
          for (const Shape& tokens : {Shape{1, 1}, Shape{3, 33}}) {
            VocabLoss loss(dtype, tokens, vocabulary, width, by_token);
            hold_to_plain(loss.call(), 1e-6);
            loss.of.z_loss = 1e-2;
            hold_to_plain(loss.call(-0.3), 1e-6);
            hold_to_plain(loss.alone(), 1e-6);
            hold_to_plain(VocabLoss::in_parts(loss.call()), 1e-6);
            hold_to_plain(VocabLoss::in_parts(loss.alone()), 1e-6);
            loss.of.scale = 0.7;
            hold_to_plain(loss.call(), 1e-6);
            loss.of.soft_cap = 2;
            hold_to_plain(loss.call(), 1e-6);
            hold_to_plain(loss.alone(), 1e-6);
          }
        }
      }
    }
  }
}

// The width has more panels than are multiplied with the exponentials at once.
TEST(VocabLoss, OfAWideTableIsThePlainOneInEveryType) {
  for (const DType dtype : floating_types()) {
    for (const bool by_token : {false, true}) hold_to_plain(VocabLoss(dtype, {3, 33}, 300, 170, by_token).call(), 1e-5);
  }
}

// Lines of a table are read in place if a cache holds them; of lines that lie a power of two apart, it holds few.
TEST(VocabLoss, OfAPowerOfTwoOfWordsIsThePlainOneInEveryType) {
  for (const DType dtype : floating_types()) {
    for (const bool by_token : {false, true}) hold_to_plain(VocabLoss(dtype, {2, 20}, 4096, 70, by_token).call(), 1e-5);
  }
}

TEST(VocabLoss, DoesNotSeeWhatMemoryHolds) {
  for (const DType dtype : floating_types()) {
    for (const bool by_token : {false, true}) expect_not_to_see_what_memory_holds(VocabLoss(dtype, {3, 33}, 700, 37, by_token).call());
  }
}

// If the activations are bfloat16, a float32 table is rounded as it is read, which gives the same bits as a table that was rounded before.
TEST(VocabLoss, RoundsAWideTable) {
  for (const bool by_token : {false, true}) {
    for (const Shape& tokens : {Shape{1, 1}, Shape{3, 33}}) {
      VocabLoss rounded(DType::bfloat16, tokens, 700, 37, by_token), wide = rounded;
      wide.table = noise(DType::float32, rounded.table.shape, 2);
      for (std::int64_t i = 0; i < wide.table.count(); ++i) rounded.table.set(i, wide.table.at(i));
      hold_to_plain(wide.call(), 1e-6);
      hold_to_plain(wide.alone(), 1e-6);
      const Tensors expected = run(rounded.call()), made = run(wide.call());
      for (std::size_t i = 0; i < made.size(); ++i) EXPECT_EQ(made[i].bytes, expected[i].bytes) << i;
    }
  }
}

// Work that goes part by part: too many logits to be held at once, and a table too wide to be packed at once.
TEST(VocabLoss, OfManyTokensAndOfAWideTableIsThePlainOne) {
  hold_to_plain(VocabLoss(DType::float32, {9, 30}, 140'000, 1, true).call());
  hold_to_plain(VocabLoss(DType::float32, {9, 30}, 140'000, 1, true).alone());
  hold_to_plain(VocabLoss(DType::float32, {1, 3}, 500, 9400, false).call(), 3e-5);
}

// Pieces of a vocabulary of 2,000 words, some of whose targets are in the piece, before it and after it.
TEST(VocabLoss, OfAPieceOfTheVocabularyIsThePlainOne) {
  for (const DType dtype : floating_types()) {
    for (const bool by_token : {false, true}) {
      for (const double soft_cap : {0.0, 2.0}) {
        VocabLoss loss(dtype, {3, 33}, 500, 37, by_token);
        loss.of = {.z_loss = 1e-2, .by_token = by_token, .scale = 0.8, .soft_cap = soft_cap};
        loss.targets = draws({3, 33}, 4, 2000);
        for (const auto& [at, target] : {std::pair{0, 700}, {1, 1199}, {3, 699}, {4, 1200}}) loss.targets.set(at, target);
        hold_to_plain(loss.logs(700), 1e-6);
        const Tensors made = run(loss.logs(700));
        EXPECT_NE(made[0].at(0), 0);
        EXPECT_NE(made[0].at(1), 0);
        EXPECT_EQ(made[0].at(3), 0);
        EXPECT_EQ(made[0].at(4), 0);
        Tensor all(made[1].dtype, {3, 33, 2});  // of another device too
        for (std::int64_t i = 0; i < made[1].count(); ++i) {
          all.set(2 * i, made[1].at(i));
          all.set(2 * i + 1, made[1].at(i) + 0.01 * static_cast<double>(i % 7) - 0.5);
        }
        hold_to_plain(loss.gradients(700, all, dtype), 1e-5);
        hold_to_plain(loss.gradients(700, all, wide_of(dtype)), 1e-5);
        expect_not_to_see_what_memory_holds(loss.gradients(700, all, dtype));
      }
    }
  }
}

// The pieces of several devices give the loss and the gradients of the whole.
TEST(VocabLoss, OfAllPiecesIsThatOfTheWhole) {
  VocabLoss whole(DType::float64, {2, 6}, 15, 3, true);
  whole.of.z_loss = 0.1;
  const Tensors expected = run(whole.call());
  Tensor logs(DType::float64, {2, 6, 3});
  std::vector<VocabLoss> pieces;
  std::vector<double> of_targets(12);
  for (std::int64_t piece = 0; piece < 3; ++piece) {
    VocabLoss& of = pieces.emplace_back(whole);
    of.table = Tensor(DType::float64, {5, 3});
    for (std::int64_t i = 0; i < 15; ++i) of.table.set(i, whole.table.at(piece * 15 + i));
    const Tensors made = run(of.logs(piece * 5));
    for (std::int64_t i = 0; i < 12; ++i) {
      logs.set(i * 3 + piece, made[1].at(i));
      of_targets[static_cast<std::size_t>(i)] += made[0].at(i);
    }
  }
  Tensor scores(DType::float64, {2, 6});
  for (std::int64_t i = 0; i < 12; ++i) scores.set(i, of_targets[static_cast<std::size_t>(i)]);
  const Call loss{Op::cross_entropy_of_scores, graph::CrossEntropyOf{0.1}, {scores, logs, whole.segments}, {Tensor(DType::float64, {})}};
  EXPECT_NEAR(run(loss)[0].at(0), expected[0].at(0), 1e-12);
  Tensor dx = filled(DType::float64, whole.x.shape, 0);
  for (std::int64_t piece = 0; piece < 3; ++piece) {
    const Tensors made = run(pieces[static_cast<std::size_t>(piece)].gradients(piece * 5, logs, DType::float64));
    for (std::int64_t i = 0; i < dx.count(); ++i) dx.set(i, dx.at(i) + made[0].at(i));
    for (std::int64_t i = 0; i < 15; ++i) EXPECT_NEAR(made[1].at(i), expected[2].at(piece * 15 + i), 1e-12);
  }
  for (std::int64_t i = 0; i < dx.count(); ++i) EXPECT_NEAR(dx.at(i), expected[1].at(i), 1e-12);
}

// If there are more pieces than devices, a device's first one stands for all of its own.
TEST(VocabLoss, OfSeveralPiecesOnADeviceStandsInTheFirst) {
  const VocabLoss loss(DType::float32, {2, 6}, 30, 3, true);
  Call call = loss.logs(0);
  const Tensor one = run(call)[1];
  call.results[1] = Tensor(DType::float32, {2, 6, 3});
  for (const Tensor& several : {run(call)[1], run_plain(call)[1]}) {
    for (std::int64_t i = 0; i < one.count(); ++i) {
      EXPECT_NEAR(several.at(3 * i), one.at(i), 1e-6);
      for (const std::int64_t other : {1, 2}) EXPECT_EQ(several.at(3 * i + other), -INFINITY);
    }
  }
}

// Summed over all tokens before it is rounded, also where these are processed in several parts.
TEST(VocabLoss, RoundsTheGradientOfItsTableOnce) {
  for (const bool by_token : {false, true}) {
    for (const auto& [tokens, vocabulary] : {std::pair{Shape{3, 33}, 700}, std::pair{Shape{9, 130}, 70'000}}) {
      const VocabLoss loss(DType::bfloat16, tokens, vocabulary, 3, by_token);
      const Tensor wide = run(loss.call())[2], made = run(loss.rounding_call())[2];
      ASSERT_EQ(made.dtype, DType::bfloat16);
      Tensor rounded = made;
      for (std::int64_t i = 0; i < wide.count(); ++i) rounded.set(i, wide.at(i));
      EXPECT_EQ(made.bytes, rounded.bytes) << by_token << " " << vocabulary;
    }
    hold_to_plain(VocabLoss(DType::bfloat16, {3, 33}, 700, 37, by_token).rounding_call(), 1e-2);
    expect_not_to_see_what_memory_holds(VocabLoss(DType::bfloat16, {3, 33}, 700, 37, by_token).rounding_call());
  }
}

// Exponentials are taken relative to a base, the largest of a token's first scores. Later scores that are far larger replace it, more than
// once.
TEST(VocabLoss, TakesScoresThatGrow) {
  for (const DType dtype : floating_types()) {
    for (const bool by_token : {false, true}) {
      VocabLoss loss(dtype, {2, 20}, 1000, 1, by_token);
      for (int v = 0; v < 1000; ++v) loss.table.set(v, v % 97 == 0 ? v / 2.0 : 1);
      for (std::int64_t i = 0; i < loss.x.count(); ++i) loss.x.set(i, i % 3 == 0 ? -1 : 1);
      hold_to_plain(loss.call(), 1e-6);
      hold_to_plain(loss.alone(), 1e-6);
    }
  }
}

// The loss by itself has the same bits as the loss computed together with its gradients.
TEST(VocabLoss, DoesNotDependOnWhetherGradientsAreAskedFor) {
  for (const DType dtype : floating_types()) {
    const VocabLoss loss(dtype, {3, 33}, 700, 37, true);
    EXPECT_EQ(run(loss.call())[0].at(0), run(loss.alone())[0].at(0));
  }
}

// If a model is nearly certain of the target, the gradient is a difference of nearly equal numbers.
TEST(VocabLoss, HasASmallGradientWhereTheTargetIsNearlyCertain) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    VocabLoss loss(dtype, {1, 4}, 300, 8, true);
    for (std::int64_t v = 0; v < 300; ++v) {
      for (std::int64_t m = 0; m < 8; ++m) loss.table.set(v * 8 + m, v == 250 ? 2 : m == 0 ? 1 : 0);
    }
    for (std::int64_t i = 0; i < loss.x.count(); ++i) loss.x.set(i, 1);
    for (std::int64_t i = 0; i < 4; ++i) loss.targets.set(i, 250);
    const Tensor dx = run(loss.call(1))[1], plain = run_plain(loss.call(1))[1];
    for (std::int64_t i = 0; i < dx.count(); ++i) EXPECT_NEAR(dx.at(i), plain.at(i), 0.02 * std::abs(plain.at(i)) + 1e-9);
    EXPECT_LT(std::abs(plain.at(1)), 1e-3);
  }
}

TEST(VocabLoss, GradientsAreItsSlopes) {
  for (const double z_loss : {0.0, 0.1}) {
    for (const bool by_token : {false, true}) {
      VocabLoss loss(DType::float64, {2, 6}, 11, 3, by_token);
      loss.of.z_loss = z_loss;
      const Tensors cotangents{filled(DType::float64, {}, 1.5), filled(DType::float64, loss.x.shape, 0), filled(DType::float64, loss.table.shape, 0)};
      for (const double soft_cap : {0.0, 1.5}) {
        loss.of.soft_cap = soft_cap;
        loss.of.scale = 0.8;
        const Tensors made = run(loss.call());
        for (const std::size_t operand : {0, 1}) expect_near(made[operand + 1], slope(loss.call(), operand, cotangents), 1e-6);
      }
    }
  }
}

TEST(VocabLoss, OfNoTokensIsNothing) {
  const Tensors made = run(VocabLoss(DType::float32, {0, 7}, 11, 3, false).call());
  EXPECT_EQ(made[0].at(0), 0);
  EXPECT_EQ(run(VocabLoss(DType::float32, {0, 7}, 11, 3, false).alone())[0].at(0), 0);
  for (std::int64_t i = 0; i < made[2].count(); ++i) EXPECT_EQ(made[2].at(i), 0);
}

TEST(VocabLoss, IsNoNumberWhereALogitIsNone) {
  VocabLoss loss(DType::float32, {1, 5}, 300, 3, false);
  loss.table.set(290, std::nan(""));
  EXPECT_TRUE(std::isnan(run(loss.call())[0].at(0)));
  loss.table.set(290, INFINITY);
  EXPECT_FALSE(std::isfinite(run(loss.call())[0].at(0)));
}

TEST(VocabLoss, NamesATargetOutsideTheVocabularyUnlessItIsPadding) {
  VocabLoss loss(DType::float32, {2, 9}, 50, 3, false);
  loss.targets.set(2, 50);  // padding
  EXPECT_EQ(message_of([&] { run(loss.call()); }), "no error");
  loss.targets.set(10, -3);
  const std::string message = message_of([&] { run(loss.call()); });
  EXPECT_NE(message.find("target -3 lies outside the vocabulary of 50"), std::string::npos) << message;
  EXPECT_NE(message.find("row 1, position 1 of the batch"), std::string::npos) << message;
}

}  // namespace
}  // namespace moesh::backend::test
