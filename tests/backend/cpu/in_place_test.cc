// Kernels give the same bits whether a plan makes a result in place, in the memory of an operand, or in memory of its own.
#include <functional>
#include <set>

#include "graph/facts.h"
#include "plan/overwrite.h"
#include "tests/backend/cpu/kernel_support.h"

namespace moesh::backend::test {
namespace {

constexpr std::int64_t kCount = 17001;  // several blocks, for more than one thread

Tensor update_numbers(double applied) { return values(DType::float32, {graph::kUpdateNumbers}, {0.01, 3, 0.7, applied}); }

// Calls of every op that works in place, for each type and function; updates are both applied and left out.
std::vector<Call> calls() {
  std::vector<Call> all;
  for (const DType dtype : floating_types()) {
    const Tensor x = noise(dtype, {kCount}, 1, 0.25, 4), y = noise(dtype, {kCount}, 2, 0.25, 4);
    for (int f = 0; f <= static_cast<int>(graph::Unary::finite); ++f) {
      const graph::UnaryOf of{static_cast<graph::Unary>(f), 0.75, 2};
      all.push_back({Op::unary, of, {x}, {x}});
      all.push_back({Op::unary_grad, of, {x, y}, {x}});
    }
    for (int f = 0; f <= static_cast<int>(graph::Binary::divide); ++f) {
      all.push_back({Op::binary, graph::BinaryOf{static_cast<graph::Binary>(f)}, {x, y}, {x}});
    }
    graph::ChainStep silu, product;
    silu.dtype = product.dtype = dtype;
    silu.operands = {0};
    product.kind = graph::ChainStep::Kind::binary;
    product.binary = {graph::Binary::multiply};
    product.operands = {2, 1};
    all.push_back({Op::chain, graph::ChainOf{{silu, product}}, {x, y}, {x}});
    // The value of every step is a result, and later steps still read all operands.
    graph::ChainStep sum = product, slope = product;
    sum.binary = {graph::Binary::subtract};
    sum.operands = {3, 0};
    slope.kind = graph::ChainStep::Kind::unary_grad;
    slope.operands = {1, 4};
    all.push_back({Op::chain, graph::ChainOf{{silu, product, sum, slope}, {2, 0, 1, 3}}, {x, y}, {x, x, x, x}});
    sum.binary = {graph::Binary::add};
    all.push_back({Op::chain, graph::ChainOf{{silu, product, sum, slope}, {2, 0, 1, 3}}, {x, y}, {x, x, x, x}});
    for (const double applied : {1.0, 0.0}) {
      const Tensor g = noise(DType::float32, {kCount}, 3), numbers_of_step = update_numbers(applied);
      for (const DType moment : floating_types()) {
        const Tensor mu = noise(moment, {kCount}, 4, -0.1, 0.1), nu = noise(dtype, {kCount}, 5, 0, 0.01);
        for (const bool nesterov : {false, true}) {
          graph::AdamOf of;
          of.nesterov = nesterov;
          all.push_back({Op::adam_update, of, {x, g, mu, nu, numbers_of_step}, {x, mu, nu}});
          all.push_back({Op::adam_update, of, {x, converted(g, DType::bfloat16), mu, nu, numbers_of_step}, {x, mu, nu, Tensor(DType::float32, {})}});
        }
        if (moment != DType::float64)
          all.push_back({Op::momentum_update, graph::MomentumOf{}, {g, mu, numbers_of_step}, {mu, g}});
      }
      all.push_back({Op::sgd_update, graph::SgdOf{0.1}, {x, g, numbers_of_step}, {x}});
      const Tensor bias = noise(dtype, {3, 8}, 6), load = draws({2, 3, 9}, 7, 40);
      all.push_back(
          {Op::balance_update, graph::BalanceOf{0.25, 1}, {bias, converted(load, DType::float32), numbers_of_step}, {bias}});
      const Tensor highest = noise(DType::float32, {8}, 32, 0, 9);
      all.push_back({Op::clip_update, graph::ClipOf{2, {1}, 20, true}, {noise(dtype, {5, 8, 33}, 33), highest, numbers_of_step},
                     {Tensor(dtype, {5, 8, 33})}});
      // The parameter is as small as the numbers of the update, so that the result could take their memory.
      if (dtype == DType::float32)
        all.push_back({Op::sgd_update,
                       graph::SgdOf{0.1},
                       {noise(dtype, {4}, 8), noise(dtype, {4}, 9), numbers_of_step},
                       {Tensor(dtype, {4})}});
    }
  }
  for (const DType dtype : floating_types()) {
    const Tensor targets = draws({5, 7}, 10, 300), segments = draws({5, 7}, 11, 3), dsum = values(DType::float32, {}, {0.3});
    const Tensor logits = noise(dtype, {5, 7, 300}, 12, -4, 4), logs = noise(dtype == DType::float64 ? dtype : DType::float32, {5, 7, 3}, 13, 5, 6);
    all.push_back({Op::cross_entropy_grad, graph::CrossEntropyOf{1e-3}, {logits, targets, segments, dsum}, {logits}});
    all.push_back({Op::cross_entropy_grad, graph::CrossEntropyOf{1e-3}, {logits, targets, segments, dsum, logs}, {logits}});
  }
  for (const DType dtype : floating_types()) {
    all.push_back({Op::embed_add, {}, {noise(dtype, {30, 33}, 14), draws({3, 40}, 15, 30), noise(dtype, {3, 40, 33}, 16)}, {Tensor(dtype, {30, 33})}});
  }
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float64, DType::int32, DType::boolean}) {
    Tensor cache(dtype, {2, 8, 3}), rows(dtype, {2, 4, 3});
    for (std::int64_t i = 0; i < cache.count(); ++i) cache.set(i, static_cast<double>(i % 2));
    for (std::int64_t i = 0; i < rows.count(); ++i) rows.set(i, static_cast<double>((i + 1) % 2));
    all.push_back({Op::cache_write, graph::CacheWriteOf{}, {cache, rows, values(DType::int32, {2, 4}, {7, 1, 0, 2, 3, 6, 5, 4})}, {cache}});
  }
  for (const DType dtype : floating_types()) {
    const Tensor weights = noise(dtype, {90}, 29);
    all.push_back({Op::weighted_rows_grad,
                   {},
                   {noise(dtype, {90, 300}, 30), weights, noise(dtype, {90, 300}, 31)},
                   {Tensor(dtype, {90, 300}), weights}});
    all.push_back({Op::fetched_rows_grad,
                   graph::GroupOf{{}, 1, 2},
                   {noise(dtype, {90, 300}, 30), weights, noise(dtype, {45, 300}, 31), draws({90}, 32, 90), filled(DType::int32, {3}, 30)},
                   {Tensor(dtype, {90, 300}), weights}});
  }
  // A result of the shape of the memory, which may not lie there, as heads are written one after the other.
  for (const DType dtype : floating_types()) {
    const Shape keys{2, 4, 4, 4}, heads{2, 4, 4, 4}, memory{2, 4, 4, 4, 5};
    const DType wide = wide_of(dtype);
    all.push_back({Op::delta_rule,
                   {},
                   {noise(dtype, keys, 34), noise(dtype, keys, 35, -0.4, 0.4), noise(dtype, memory, 36), noise(wide, heads, 37, -1, 0),
                    noise(dtype, heads, 38, 0, 1), filled(DType::int32, {2, 4}, 1), noise(wide, memory, 39), draws({2, 4}, 40, 3)},
                   {Tensor(dtype, memory), Tensor(wide, memory)}});
  }
  // Ops with one more operand, to which the result is added.
  for (const DType dtype : floating_types()) {
    const Tensor rows = noise(dtype, {90, 300}, 17), sum = noise(dtype, {90, 70}, 18), sizes = values(DType::int32, {3}, {40, 0, 47});
    all.push_back({Op::einsum, graph::EinsumOf{"am,mb->ab"}, {rows, noise(dtype, {300, 70}, 19), sum}, {sum}});
    all.push_back({Op::einsum, graph::EinsumOf{"m,mb->b"}, {noise(dtype, {1100}, 20), noise(dtype, {1100, 70}, 21), noise(dtype, {70}, 22)}, {Tensor(dtype, {70})}});
    for (const bool transpose : {false, true}) {
      const Tensor weights = noise(dtype, transpose ? Shape{3, 70, 300} : Shape{3, 300, 70}, 23);
      all.push_back({Op::grouped_matmul, graph::GroupedMatmulOf{transpose}, {rows, weights, sizes, sum}, {sum}});
    }
    const Tensor scale = noise(dtype, {300}, 24, 0.5, 2), dy = noise(dtype, {90, 300}, 25), more = noise(dtype, {90, 300}, 26);
    all.push_back({Op::rms_norm_grad, graph::RmsNormOf{1e-6}, {rows, scale, dy, more}, {rows, scale}});
    const Tensor squares = noise(wide_of(dtype), {90}, 27, 100, 200), dots = noise(wide_of(dtype), {90}, 28);
    all.push_back({Op::rms_norm_grad_of_dots, graph::RmsNormOf{1e-6, 600}, {rows, scale, dy, squares, dots, more}, {rows, scale}});
  }
  return all;
}

// The rule of plans: whether a result may be made in the memory of an operand.
bool may_lie_there(const Call& call, std::size_t result, std::size_t operand) {
  const Tensor &from = call.operands[operand], &to = call.results[result];
  return plan::may_lie_in(call.op, operand, result) && to.dtype == from.dtype && to.shape == from.shape;
}

// For each result, the number of the operand whose memory it takes, or -1 for memory of its own.
using Places = std::vector<int>;

void for_each_placement(const Call& call, Places& places, const std::function<void(const Places&)>& act) {
  if (places.size() == call.results.size()) return act(places);
  for (int operand = -1; operand < static_cast<int>(call.operands.size()); ++operand) {
    const bool is_taken = operand >= 0 && std::find(places.begin(), places.end(), operand) != places.end();
    if (is_taken || (operand >= 0 && !may_lie_there(call, places.size(), static_cast<std::size_t>(operand)))) continue;
    places.push_back(operand);
    for_each_placement(call, places, act);
    places.pop_back();
  }
}

Tensors run_in_place(Kernel kernel, const Call& call, const Places& places, int threads) {
  Tensors operands = call.operands, own = call.results;
  std::vector<View> given, made;
  for (const Tensor& operand : operands) given.push_back(operand.view());
  for (std::size_t i = 0; i < places.size(); ++i)
    made.push_back(places[i] < 0 ? own[i].view() : given[static_cast<std::size_t>(places[i])]);
  Workers workers(threads);
  kernel({call.attributes, given, made, workers});
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i] >= 0) own[i].bytes = operands[static_cast<std::size_t>(places[i])].bytes;
  }
  return own;
}

std::int64_t hold_in_place(const Call& call, Kernel kernel, const std::string& which, int threads) {
  const Tensors elsewhere = run_kernel(kernel, call, threads);
  std::int64_t placements = 0;
  Places places;
  for_each_placement(call, places, [&](const Places& at) {
    const Tensors made = run_in_place(kernel, call, at, threads);
    for (std::size_t i = 0; i < made.size(); ++i) {
      EXPECT_EQ(made[i].bytes, elsewhere[i].bytes) << name_of(call.op) << " " << name_of(call.results[0].dtype) << " " << which
                                                   << ": result " << i << ", the first at operand " << at[0];
    }
    placements += std::any_of(at.begin(), at.end(), [](int place) { return place >= 0; });
  });
  return placements;
}

TEST(InPlace, KernelsGiveTheirBitsWhereverAResultLies) {
  for (const Call& call : calls()) {
    EXPECT_GE(hold_in_place(call, reference::find_kernel(call.op), "plain", 1), 1);
    for (const cpu::Isa isa : isas_here()) {
      const With with(isa);
      for (const int threads : {1, 3})
        EXPECT_GE(hold_in_place(call, cpu::find_kernel(call.op), std::string(cpu::name_of(isa)), threads), 1);
    }
  }
}

// Every op that plans make in place is tried above.
TEST(InPlace, IsTriedForEveryOpThatPlansMakeInPlace) {
  std::set<Op> tried, relied_on;
  for (const Call& call : calls()) tried.insert(call.op);
  for (int i = 0; i < graph::kOps; ++i) {
    for (std::size_t operand = 0; operand < 8; ++operand) {
      for (std::size_t result = 0; result < 2; ++result) {
        if (plan::may_lie_in(static_cast<Op>(i), operand, result)) relied_on.insert(static_cast<Op>(i));
      }
    }
  }
  EXPECT_EQ(tried, relied_on);
}

}  // namespace
}  // namespace moesh::backend::test
