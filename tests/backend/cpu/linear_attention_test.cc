// Kernels of linear attention. Shape suffixes: B rows, S length, G heads of keys, R heads of values for each, D a key's width, V a value's
// width, W tokens of a window, C channels.
#include "graph/segments.h"
#include "tests/backend/cpu/kernel_support.h"

namespace moesh::backend::test {
namespace {

struct ConvSizes {
  std::int64_t rows, length, window;
  Shape channels;
};

const std::vector<ConvSizes>& conv_sizes() {
  static const std::vector<ConvSizes> all{{2, 9, 4, {5}}, {1, 300, 4, {3, 100}}, {3, 2, 4, {33}}, {2, 40, 2, {600}}, {1, 1, 7, {2, 4}}};
  return all;
}

Shape joined(Shape first, const Shape& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

Call conv_call(DType dtype, const ConvSizes& s) {
  const Shape x = joined({s.rows, s.length}, s.channels);
  return {Op::causal_conv, {}, {noise(dtype, x, 1), noise(dtype, joined({s.window}, s.channels), 2)}, {Tensor(dtype, x)}};
}

Call gradient_of_conv(const Call& call) {
  return {Op::causal_conv_grad,
          {},
          {call.operands[0], call.operands[1], noise(call.operands[0].dtype, call.operands[0].shape, 3)},
          {call.operands[0], call.operands[1]}};
}

// Texts that go on, begin anew and have padding.
Tensors new_tokens(std::int64_t rows, std::int64_t length) {
  Tensor order(DType::int32, {rows, length}), segments(DType::int32, {rows, length});
  for (std::int64_t i = 0; i < rows * length; ++i) {
    const std::int64_t row = i / length, s = i % length, begin = row % 3 == 0 ? -7 : row % 3 == 1 ? 0 : length / 2;
    order.set(i, static_cast<double>(s < begin ? s + 5 : s - begin));
    const bool is_padding = (i + row) % 5 == 4 || s >= length - row;
    segments.set(i, is_padding ? (i % 2 == 0 ? 0 : graph::kSegmentOfNewPadding) : s < begin ? 1 : 2);
  }
  return {order, segments};
}

Call with_kept(Call call) {
  const Shape x = call.operands[0].shape;
  Shape kept = x;
  kept[1] = call.operands[1].shape[0] - 1;
  call.operands.push_back(noise(call.operands[0].dtype, kept, 4));
  for (const Tensor& tokens : new_tokens(x[0], x[1])) call.operands.push_back(tokens);
  call.results.emplace_back(call.operands[0].dtype, kept);
  return call;
}

TEST(CausalConv, IsThePlainOne) {
  for (const ConvSizes& s : conv_sizes()) {
    for (const DType dtype : floating_types()) {
      const Call call = conv_call(dtype, s);
      hold_to_plain(call);
      hold_to_plain(gradient_of_conv(call));
      hold_to_plain(with_kept(call));
    }
  }
}

TEST(CausalConv, HasGradientsThatAreItsSlopes) {
  const Call call = conv_call(DType::float64, {2, 7, 4, {3, 2}}), back = gradient_of_conv(call);
  hold_to_differences(call, {back.operands.back()}, Op::causal_conv_grad, back.operands, {0, 1});
}

// A token's own weight is the last one.
TEST(CausalConv, WeighsATokenAndThoseBeforeIt) {
  const Call call{Op::causal_conv,
                  {},
                  {values(DType::float32, {1, 3, 1}, {1, 2, 3}), values(DType::float32, {2, 1}, {10, 1})},
                  {Tensor(DType::float32, {1, 3, 1})}};
  expect_near(run(call)[0], values(DType::float32, {1, 3, 1}, {1, 12, 23}), 1e-6);
}

struct DeltaSizes {
  std::int64_t rows, length, groups, sharing, dim, width;
};

// Less than a chunk, several chunks, a whole number of them, widths that are no multiple of anything, one token.
const std::vector<DeltaSizes>& delta_sizes() {
  static const std::vector<DeltaSizes> all{
      {2, 9, 2, 2, 4, 6}, {1, 150, 1, 3, 16, 33}, {1, 128, 2, 1, 32, 8}, {3, 1, 2, 2, 8, 40}, {1, 70, 3, 1, 1, 1}};
  return all;
}

// Keys of length 1, as the model has them; decays and rates as it makes them; the last tokens of a row are padding.
Call delta_call(DType dtype, const DeltaSizes& s) {
  const Shape keys{s.rows, s.length, s.groups, s.dim}, heads{s.rows, s.length, s.groups, s.sharing};
  Tensor key = noise(DType::float64, keys, 2);
  for (std::int64_t i = 0; i < key.count(); i += s.dim) {
    double square = 0;
    for (std::int64_t d = 0; d < s.dim; ++d) square += key.at(i + d) * key.at(i + d);
    for (std::int64_t d = 0; d < s.dim; ++d) key.set(i + d, key.at(i + d) / std::sqrt(square));
  }
  Tensor segments = filled(DType::int32, {s.rows, s.length}, 1);
  for (std::int64_t row = 1; row < s.rows; ++row) segments.set((row + 1) * s.length - 1, 0);
  if (s.length > 4) segments.set(s.length / 2, 0);
  const Shape value = joined(heads, {s.width});
  return {Op::delta_rule,
          {},
          {noise(dtype, keys, 1), converted(key, dtype), noise(dtype, value, 3), noise(wide_of(dtype), heads, 4, -0.4, 0),
           noise(dtype, heads, 5, 0, 1), segments},
          {Tensor(dtype, value)}};
}

Call gradient_of_delta(const Call& call) {
  Call back{Op::delta_rule_grad, {}, call.operands, {call.operands.begin(), call.operands.begin() + 5}};
  back.operands.push_back(noise(call.results[0].dtype, call.results[0].shape, 6));
  return back;
}

Call with_memory(Call call) {
  const Shape query = call.operands[0].shape, value = call.operands[2].shape;
  const Tensor memory = noise(call.operands[3].dtype, {value[0], value[2], value[3], query[3], value[4]}, 7);
  const Tensors tokens = new_tokens(query[0], query[1]);
  call.operands[5] = tokens[1];
  call.operands.push_back(memory);
  call.operands.push_back(tokens[0]);
  call.results.push_back(memory);
  return call;
}

TEST(DeltaRule, AndItsGradientAreThePlainOnes) {
  for (const DeltaSizes& s : delta_sizes()) {
    for (const DType dtype : floating_types()) {
      const Call call = delta_call(dtype, s);
      hold_to_plain(call, dtype == DType::float32 ? 2e-5 : 0);
      hold_to_plain(gradient_of_delta(call), dtype == DType::float32 ? 5e-5 : 0);
      hold_to_plain(with_memory(call), dtype == DType::float32 ? 2e-5 : 0);
    }
  }
}

TEST(DeltaRule, HasGradientsThatAreItsSlopes) {
  for (const DeltaSizes& s : {DeltaSizes{1, 5, 1, 2, 3, 2}, DeltaSizes{1, 67, 1, 1, 2, 1}}) {
    const Call call = delta_call(DType::float64, s), back = gradient_of_delta(call);
    hold_to_differences(call, {back.operands.back()}, Op::delta_rule_grad, back.operands, {0, 1, 2, 3, 4});
  }
}

TEST(DeltaRule, DoesNotSeeWhatMemoryHolds) {
  for (const DType dtype : floating_types()) {
    const Call call = delta_call(dtype, {1, 150, 1, 3, 16, 33});
    expect_not_to_see_what_memory_holds(call);
    expect_not_to_see_what_memory_holds(gradient_of_delta(call));
  }
}

// One number as memory: it halves, moves by half of what is missing, and is read.
TEST(DeltaRule, DecaysCorrectsAndReads) {
  const auto of = [](const Shape& shape, const std::vector<double>& all) { return values(DType::float32, shape, all); };
  const double half = std::log(0.5);
  Call call{Op::delta_rule,
            {},
            {of({1, 3, 1, 1}, {1, 2, 1}), of({1, 3, 1, 1}, {1, 1, 1}), of({1, 3, 1, 1, 1}, {8, 10, 5}),
             of({1, 3, 1, 1}, {half, half, half}),
             of({1, 3, 1, 1}, {0.5, 0.5, 0.5}), values(DType::int32, {1, 3}, {1, 1, 1})},
            {Tensor(DType::float32, {1, 3, 1, 1, 1})}};
  expect_near(run(call)[0], of({1, 3, 1, 1, 1}, {4, 12, 4}), 1e-6);
  call.operands[5] = values(DType::int32, {1, 3}, {1, 0, 1});
  expect_near(run(call)[0], of({1, 3, 1, 1, 1}, {4, 8, 3.5}), 1e-6);
}

// Tokens that come one after the other see what tokens of one call do.
TEST(DeltaRule, GoesOnWhereItStopped) {
  const DeltaSizes s{2, 90, 2, 2, 8, 5};
  Call whole = with_memory(delta_call(DType::float64, s));
  const Tensors at_once = run(whole);
  Tensor memory = whole.operands[6];
  for (std::int64_t token = 0; token < s.length; ++token) {
    Call one = whole;
    const auto token_of = [&](const Tensor& of) {
      Shape shape = of.shape;
      shape[1] = 1;
      Tensor made(of.dtype, shape);
      const std::int64_t width = made.count() / s.rows;
      for (std::int64_t i = 0; i < made.count(); ++i) made.set(i, of.at((i / width * s.length + token) * width + i % width));
      return made;
    };
    for (std::size_t i = 0; i < one.operands.size(); ++i) one.operands[i] = i == 6 ? memory : token_of(whole.operands[i]);
    one.results = {token_of(whole.results[0]), memory};
    const Tensors made = run(one);
    expect_near(made[0], token_of(at_once[0]), 1e-10, fmt::format("token {}", token));
    memory = made[1];
  }
  expect_near(memory, at_once[1], 1e-12);
}

}  // namespace
}  // namespace moesh::backend::test
