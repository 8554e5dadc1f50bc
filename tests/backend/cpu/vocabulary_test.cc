#include <cmath>

#include "tests/backend/cpu/kernel_support.h"
#include "tests/support.h"

namespace moesh::backend::test {
namespace {

using graph::CrossEntropyOf;
using moesh::test::message_of;

Tensor scalar(double value) { return filled(DType::float32, {}, value); }

TEST(Embed, LooksUpRows) {
  for (const DType dtype : floating_types()) {
    hold_to_plain({Op::embed, {}, {noise(dtype, {50, 33}, 1), draws({3, 40}, 2, 50)}, {Tensor(dtype, {3, 40, 33})}});
  }
}

TEST(Embed, RoundsWhatItLooksUp) {
  for (const DType from : floating_types()) {
    for (const DType to : floating_types()) {
      hold_to_plain({Op::embed, {}, {noise(from, {50, 33}, 1), draws({3, 40}, 2, 50)}, {Tensor(to, {3, 40, 33})}});
    }
  }
}

// A shard of the table that begins in its middle gives zeros for tokens of other shards.
TEST(Embed, OfAShardIsThePlainOne) {
  for (const DType dtype : floating_types()) {
    const Tensor table = noise(dtype, {20, 33}, 1), tokens = draws({3, 40}, 2, 50);
    const Call call{Op::embed, {}, {table, tokens}, {Tensor(dtype, {3, 40, 33})}, 0, 1, {{17, 0}, {0, 0}, {0, 0, 0}}};
    hold_to_plain(call);
    const Tensor made = run(call)[0];
    for (std::int64_t i = 0; i < tokens.count(); ++i) {
      const std::int64_t row = static_cast<std::int64_t>(tokens.at(i)) - 17;
      EXPECT_EQ(made.at(i * 33 + 5), row < 0 || row >= 20 ? 0 : table.at(row * 33 + 5)) << i;
    }
  }
}

// Some tokens repeat, and some of the vocabulary does not occur.
TEST(Embed, GradientSumsOverTheUsesOfAToken) {
  for (const DType dtype : floating_types()) {
    const Tensor tokens = draws({3, 40}, 2, 30);
    hold_to_plain({Op::embed_grad, {}, {tokens, noise(dtype, {3, 40, 33}, 1)}, {Tensor(dtype, {50, 33})}});
  }
  for (const DType of_table : floating_types()) {
    for (const DType of_rows : floating_types()) {
      const Tensor tokens = draws({3, 40}, 2, 30), dy = noise(of_rows, {3, 40, 33}, 1), table = noise(of_table, {50, 33}, 3);
      hold_to_plain({Op::embed_grad, {}, {tokens, dy}, {Tensor(of_table, {50, 33})}});
      hold_to_plain({Op::embed_add, {}, {table, tokens, dy}, {table}});
    }
  }
  const Tensor tokens = draws({2, 6}, 2, 5);
  const Tensor table = noise(DType::float64, {7, 3}, 1);
  const Tensor dy = noise(DType::float64, {2, 6, 3}, 3);
  hold_to_differences({Op::embed, {}, {table, tokens}, {dy}}, {dy}, Op::embed_grad, {tokens, dy}, {0});
}

TEST(Embed, NamesATokenOutsideTheVocabulary) {
  const Tensor tokens = values(DType::int32, {2, 3}, {0, 1, 2, 3, 9, 0});
  const std::string message = message_of([&] { run({Op::embed, {}, {noise(DType::float32, {9, 4}, 1), tokens}, {Tensor(DType::float32, {2, 3, 4})}}); });
  EXPECT_NE(message.find("token 9 lies outside the vocabulary of 9"), std::string::npos) << message;
  EXPECT_NE(message.find("row 1, position 1 of the batch"), std::string::npos) << message;
}

struct Loss {
  Tensor logits, targets, segments;

  explicit Loss(DType dtype, std::int64_t vocabulary = 1000)
      : logits(noise(dtype, {2, 9, vocabulary}, 1, -6, 6)),
        targets(draws({2, 9}, 2, static_cast<std::uint32_t>(vocabulary))),
        segments(filled(DType::int32, {2, 9}, 1)) {
    for (const std::int64_t padding : {7, 8, 17}) segments.set(padding, 0);
  }
  Call forward(double z_loss, DType of_sum = DType::float32) const {
    return {Op::cross_entropy, CrossEntropyOf{z_loss}, {logits, targets, segments}, {Tensor(of_sum, {})}};
  }
  // With the part that the z-loss makes.
  Call in_parts(double z_loss) const {
    Call made = forward(z_loss);
    made.results.push_back(made.results[0]);
    return made;
  }
  Call backward(double z_loss, double dsum) const {
    return {Op::cross_entropy_grad, CrossEntropyOf{z_loss}, {logits, targets, segments, scalar(dsum)}, {logits}};
  }
};

TEST(CrossEntropy, IsThePlainOne) {
  for (const DType dtype : floating_types()) {
    for (const double z_loss : {0.0, 1e-2}) {
      // The sum is a float32 number for logits of all types.
      hold_to_plain(Loss(dtype).forward(z_loss), 1e-6);
      hold_to_plain(Loss(dtype).in_parts(z_loss), 1e-6);
      hold_to_plain(Loss(dtype).backward(z_loss, 1.5));
    }
  }
}

// The loss over a sharded vocabulary: what a device computes from its own logits, and what it computes from the results of all devices.
TEST(CrossEntropy, InPiecesIsThePlainOne) {
  for (const DType dtype : floating_types()) {
    const Loss loss(dtype);
    const DType wide = dtype == DType::float64 ? dtype : DType::float32;
    hold_to_plain({Op::vocab_scores, {}, {loss.logits, loss.targets}, {Tensor(wide, {2, 9}), Tensor(wide, {2, 9, 2})}}, 1e-6);
    const Tensor logs = noise(wide, {2, 9, 4}, 3, 5, 6);
    hold_to_plain({Op::cross_entropy_of_scores, CrossEntropyOf{1e-2}, {noise(wide, {2, 9}, 4), logs, loss.segments},
                   {Tensor(DType::float32, {}), Tensor(DType::float32, {})}}, 1e-6);
    hold_to_plain({Op::cross_entropy_grad, CrossEntropyOf{1e-2}, {loss.logits, loss.targets, loss.segments, scalar(1.5), logs}, {loss.logits}});
  }
}

// The same on a shard that begins in the middle of the vocabulary: some targets are in it, before it and after it.
TEST(CrossEntropy, OfAShardOfTheVocabularyIsThePlainOne) {
  for (const DType dtype : floating_types()) {
    Loss loss(dtype, 1000);
    const std::vector<Shape> of_two{{0, 0, 700}, {0, 0}}, of_five{{0, 0, 700}, {0, 0}, {0, 0}, {}, {0, 0, 0}};
    loss.targets = draws({2, 9}, 2, 2400);
    loss.targets.set(0, 700);
    loss.targets.set(1, 1699);
    loss.targets.set(2, 699);
    loss.targets.set(3, 1700);
    const DType wide = dtype == DType::float64 ? dtype : DType::float32;
    Call scores{Op::vocab_scores, {}, {loss.logits, loss.targets}, {Tensor(wide, {2, 9}), Tensor(wide, {2, 9, 2})}, 0, 1, of_two};
    hold_to_plain(scores, 1e-6);
    const Tensor of_targets = run(scores)[0];
    EXPECT_EQ(of_targets.at(0), loss.logits.at(0));
    EXPECT_EQ(of_targets.at(1), loss.logits.at(1000 + 999));
    EXPECT_EQ(of_targets.at(2), 0);
    EXPECT_EQ(of_targets.at(3), 0);
    const Tensor logs = noise(wide, {2, 9, 4}, 3, 5, 6);
    hold_to_plain({Op::cross_entropy_grad, CrossEntropyOf{1e-2}, {loss.logits, loss.targets, loss.segments, scalar(1.5), logs},
                   {loss.logits}, 0, 1, of_five});
  }
}

TEST(CrossEntropy, GradientIsItsSlope) {
  for (const double z_loss : {0.0, 0.1}) {
    const Loss loss(DType::float64, 11);
    const Tensor dsum = filled(DType::float64, {}, 1.5);
    hold_to_differences(loss.forward(z_loss, DType::float64), {dsum}, Op::cross_entropy_grad, {loss.logits, loss.targets, loss.segments, dsum}, {0});
  }
}

TEST(CrossEntropy, GivesTheNumbersOfMaxText) {
  Loss loss(DType::float32, 4);
  loss.logits = values(DType::float32, {1, 2, 4}, {1, -2, 0.5, 3, 0, 4, -1, 2});
  loss.targets = values(DType::int32, {1, 2}, {2, 1});
  loss.segments = filled(DType::int32, {1, 2}, 1);
  EXPECT_FLOAT_EQ(static_cast<float>(run(loss.forward(0.01))[0].at(0)), 2.804797888f + 0.320876747f);
  const Tensor expected = values(DType::float32, {1, 2, 4}, {0.117634162, 0.005856660, -0.928651273, 0.869205415, 0.017093737, -0.066713691, 0.006288434, 0.126306564});
  expect_near(run(loss.backward(0.01, 1))[0], expected, 1e-6);
}

TEST(Positions, AreThoseThatAreNoPadding) {
  const Call count{Op::positions, {}, {Loss(DType::float32).segments}, {Tensor(DType::float32, {})}};
  hold_to_plain(count);
  EXPECT_EQ(run(count)[0].at(0), 15);
}

TEST(CrossEntropy, OfEqualLogitsIsTheLogOfTheirNumber) {
  Loss loss(DType::float32, 50);
  loss.logits = filled(DType::float32, {2, 9, 50}, 100);
  const double log_sum = 100 + std::log(50);
  EXPECT_FLOAT_EQ(static_cast<float>(run(loss.forward(0))[0].at(0)), static_cast<float>(15 * std::log(50)));
  EXPECT_FLOAT_EQ(static_cast<float>(run(loss.forward(0.1))[0].at(0)), static_cast<float>(15 * (std::log(50) + 0.1 * log_sum * log_sum)));
}

TEST(CrossEntropy, NamesATargetOutsideTheVocabularyUnlessItIsPadding) {
  Loss loss(DType::float32, 50);
  loss.targets.set(8, 50);  // padding
  EXPECT_EQ(message_of([&] { run(loss.forward(0)); }), "no error");
  loss.targets.set(10, -3);
  for (const Call& call : {loss.forward(0), loss.backward(0, 1)}) {
    const std::string message = message_of([&] { run(call); });
    EXPECT_NE(message.find("target -3 lies outside the vocabulary of 50"), std::string::npos) << message;
    EXPECT_NE(message.find("row 1, position 1 of the batch"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace moesh::backend::test
