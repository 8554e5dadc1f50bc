#include "measure/kernels.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <functional>
#include <span>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "backend/backend.h"
#include "backend/cpu/draws.h"
#include "backend/element.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "graph/builder.h"
#include "graph/work.h"
#include "run/array.h"

namespace moesh::measure {
namespace {

using graph::Op;
using run::Array;

// What an operand's elements are.
enum class Of {
  numbers,    // of the type that is measured
  wide,       // float32
  decays,     // float32, below 0
  heads,      // of the type that is measured, so small that heads have about length 1
  positions,  // 0, 1, ... in each row
  ones,
  below,      // integers below `limit`
  even,       // equal integers that add up to `limit`
  update,     // graph::UpdateNumber
};

struct Operand {
  Shape shape;
  Of of = Of::numbers;
  std::int64_t limit = 0;
};

struct Result {
  Shape shape;
  Of of = Of::numbers;
};

struct Case {
  const char* name;
  Op op;
  graph::Attributes attributes;
  std::vector<Operand> operands;
  std::vector<Result> results;
};

constexpr std::int64_t kRows = 4, kLength = 512, kTokens = kRows * kLength, kDims = 1024, kHeads = 8, kKeyHeads = 4, kHeadDim = 64;
constexpr std::int64_t kExperts = 8, kChoices = 2, kRouted = kTokens * kChoices, kExpertDims = 512, kWidth = 1024;
constexpr std::int64_t kWords = 32000, kParameters = 1 << 24;

std::vector<Case> all_cases() {
  using graph::EinsumOf;
  const Operand x{{kTokens, kDims}}, weights{{kDims, kDims}}, rows{{kRouted, kExpertDims}}, wide_rows{{kRouted, kWidth}};
  const Operand sizes{{kExperts}, Of::even, kRouted}, of_experts{{kExperts, kExpertDims, kWidth}};
  const Operand tokens{{kRows, kLength}, Of::below, kWords}, places{{kRows, kLength}, Of::positions}, segments{{kRows, kLength}, Of::ones};
  const Operand query{{kRows, kLength, kHeads, kHeadDim}}, key{{kRows, kLength, kKeyHeads, kHeadDim}};
  const Operand wide_parameters{{kParameters}, Of::wide}, x_by_row{{kRows, kLength, kDims}};
  constexpr std::int64_t kSharing = 2, kMemoryWidth = 128;  // heads of values for each of keys, and their widths
  const Operand unit_key{{kRows, kLength, kKeyHeads, kMemoryWidth}, Of::heads};
  const Operand memory_value{{kRows, kLength, kKeyHeads, kSharing, kMemoryWidth}};
  const Operand memory_decay{{kRows, kLength, kKeyHeads, kSharing}, Of::decays}, memory_rate{memory_decay.shape, Of::heads};
  const Shape index_scores{kRows, kLength, kLength};
  const graph::AttentionOf attention{.score_scale = 0.125};
  const graph::GroupOf choices{.axes = {}, .choices = kChoices};
  return {
      {"projection", Op::einsum, EinsumOf{"tm,mh->th"}, {x, weights}, {{{kTokens, kDims}}}},
      {"projection's input's gradient", Op::einsum, EinsumOf{"th,mh->tm"}, {x, weights}, {{{kTokens, kDims}}}},
      {"projection's weights' gradient", Op::einsum, EinsumOf{"tm,th->mh"}, {x, x}, {{{kDims, kDims}}}},
      {"projection of a token", Op::einsum, EinsumOf{"tm,mh->th"}, {{{1, kDims}}, weights}, {{{1, kDims}}}},
      {"projection of 8 tokens", Op::einsum, EinsumOf{"tm,mh->th"}, {{{8, kDims}}, weights}, {{{8, kDims}}}},
      {"experts", Op::grouped_matmul, graph::GroupedMatmulOf{}, {rows, of_experts, sizes}, {{{kRouted, kWidth}}}},
      {"experts' input's gradient", Op::grouped_matmul, graph::GroupedMatmulOf{true}, {wide_rows, of_experts, sizes},
       {{{kRouted, kExpertDims}}}},
      {"experts' weights' gradient", Op::grouped_outer, graph::GroupedOuterOf{},
       {rows, wide_rows, sizes}, {{{kExperts, kExpertDims, kWidth}}}},
      {"causal attention", Op::attention, attention, {query, key, key, places, segments}, {{query.shape}}},
      {"causal attention's gradient", Op::attention_grad, attention, {query, key, key, places, segments, query},
       {{query.shape}, {key.shape}, {key.shape}}},
      {"scores of an indexer", Op::index_scores, graph::IndexScoresOf{true},
       {query, {{kRows, kLength, kHeadDim}}, {{kRows, kLength, kHeads}, Of::wide}, places}, {{index_scores, Of::wide}}},
      {"choice of keys", Op::choose_keys, graph::ChooseKeysOf{.keys = kLength / 8, .keys_by_place = true},
       {{index_scores, Of::wide}, places, segments, places, segments}, {{{kRows, kLength, graph::words_of_keys(kLength)}, Of::below}}},
      {"convolution of tokens", Op::causal_conv, {}, {x_by_row, {{4, kDims}}}, {{x_by_row.shape}}},
      {"linear attention", Op::delta_rule, {}, {unit_key, unit_key, memory_value, memory_decay, memory_rate, segments},
       {{memory_value.shape}}},
      {"linear attention's gradient", Op::delta_rule_grad, {},
       {unit_key, unit_key, memory_value, memory_decay, memory_rate, segments, memory_value},
       {{unit_key.shape}, {unit_key.shape}, {memory_value.shape}, {memory_decay.shape, Of::wide}, {memory_rate.shape}}},
      {"loss over a vocabulary", Op::vocab_loss, graph::VocabLossOf{},
       {{{1, kLength, kExpertDims}}, {{kExpertDims, kWords}}, {{1, kLength}, Of::below, kWords}, {{1, kLength}, Of::ones}, {{}, Of::wide}},
       {{{}, Of::wide}, {{1, kLength, kExpertDims}}, {{kExpertDims, kWords}, Of::wide}}},
      {"sort by expert", Op::sort_slots, graph::SortSlotsOf{}, {{{kTokens, kChoices}, Of::below, kExperts}},
       {{{kRouted}, Of::below}, {{kExperts}, Of::below}, {{}, Of::wide}}},
      {"rows of experts", Op::fetch_rows, choices, {x, {{kRouted}, Of::below, kRouted}, sizes}, {{{kRouted, kDims}}}},
      {"choice of experts", Op::top_k, graph::TopKOf{.k = kChoices}, {{{kRows, kLength, kExperts}}},
       {{{kRows, kLength, kChoices}}, {{kRows, kLength, kChoices}, Of::below}}},
      {"norm", Op::rms_norm, graph::RmsNormOf{}, {x, {{kDims}}}, {{x.shape}}},
      {"norm's gradient", Op::rms_norm_grad, graph::RmsNormOf{}, {x, {{kDims}}, x}, {{x.shape}, {{kDims}}}},
      {"rotation", Op::rope, graph::RopeOf{}, {query, places}, {{query.shape}}},
      {"softmax", Op::softmax, {}, {wide_rows}, {{wide_rows.shape}}},
      {"silu", Op::unary, graph::UnaryOf{graph::Unary::silu}, {wide_rows}, {{wide_rows.shape}}},
      {"silu's gradient", Op::unary_grad, graph::UnaryOf{graph::Unary::silu}, {wide_rows, wide_rows}, {{wide_rows.shape}}},
      {"product", Op::binary, graph::BinaryOf{graph::Binary::multiply}, {wide_rows, wide_rows}, {{wide_rows.shape}}},
      {"cast of parameters", Op::cast, {}, {wide_parameters}, {{{kParameters}}}},
      {"embedding", Op::embed, {}, {{{kWords, kExpertDims}}, tokens}, {{{kRows, kLength, kExpertDims}}}},
      {"Adam", Op::adam_update, graph::AdamOf{},
       {wide_parameters, wide_parameters, wide_parameters, wide_parameters, {{graph::kUpdateNumbers}, Of::update}},
       {{{kParameters}, Of::wide}, {{kParameters}, Of::wide}, {{kParameters}, Of::wide}}},
      {"norm of a gradient", Op::sum_squares, {}, {wide_parameters}, {{{}, Of::wide}}},
  };
}

DType type_of(Of of, DType dtype) {
  switch (of) {
    case Of::numbers:
    case Of::heads: return dtype;
    case Of::wide:
    case Of::decays:
    case Of::update: return DType::float32;
    default: return DType::int32;
  }
}

void draw(const Array& to, float from_zero, float spread = 1) {
  std::vector<float> numbers(static_cast<std::size_t>(to.view.count()));
  backend::cpu::NormalDraws(2).draw(random_key(1), 0, numbers);
  backend::for_floating(to.view.dtype, [&]<typename T>() {
    std::transform(numbers.begin(), numbers.end(), to.as<T>(),
                   [&](float number) { return backend::store<T>(from_zero + spread * number); });
  });
}

// Second moments are not negative, so all of Adam's operands are drawn around 3, not 0.
Array operand_of(const Case& of, const Operand& operand, DType dtype, run::Pool& pool) {
  const Array made = pool.allocate(operand.shape, type_of(operand.of, dtype));
  const std::int64_t count = made.view.count();
  switch (operand.of) {
    case Of::numbers:
    case Of::wide: draw(made, of.op == Op::adam_update ? 3.0f : 0.0f); break;
    case Of::decays: std::fill_n(made.as<float>(), count, -0.1f); break;
    case Of::heads: draw(made, 0, 1 / std::sqrt(static_cast<float>(operand.shape.back()))); break;
    case Of::positions:
      for (std::int64_t i = 0; i < count; ++i) made.as<std::int32_t>()[i] = static_cast<std::int32_t>(i % operand.shape.back());
      break;
    case Of::ones: std::fill_n(made.as<std::int32_t>(), count, 1); break;
    case Of::below:
      for (std::int64_t i = 0; i < count; ++i) {
        made.as<std::int32_t>()[i] =
            random_integer(random_key(2), static_cast<std::uint64_t>(i), 0, static_cast<std::int32_t>(operand.limit));
      }
      break;
    case Of::even: std::fill_n(made.as<std::int32_t>(), count, static_cast<std::int32_t>(operand.limit / count)); break;
    case Of::update: std::fill_n(made.as<float>(), count, 1.0f); break;
  }
  return made;
}

std::string sizes_of(const std::vector<Operand>& operands) {
  std::vector<std::string> words;
  for (const Operand& operand : operands) {
    if (operand.shape.empty() || (operand.of != Of::numbers && operand.of != Of::wide && operand.of != Of::heads)) continue;
    std::vector<std::string> dims;
    for (const std::int64_t size : operand.shape) dims.push_back(std::to_string(size));
    const std::string shape = join(dims, "x");
    if (std::find(words.begin(), words.end(), shape) == words.end()) words.push_back(shape);
  }
  return join(words, ", ");
}

graph::Work work_of(const Case& of, const std::vector<Array>& operands, const std::vector<Array>& results) {
  graph::Builder builder;
  std::vector<graph::Tensor> inputs;
  for (const Array& operand : operands) {
    inputs.push_back(builder.input("operand", operand.view.shape, operand.view.dtype, Labels(operand.view.shape.size())));
  }
  std::vector<std::pair<Shape, DType>> made;
  for (const Array& result : results) made.emplace_back(result.view.shape, result.view.dtype);
  builder.add(of.op, of.name, inputs, of.attributes, made);
  return graph::work_of({builder.graph(), builder.graph().nodes.back()}, mesh::Mesh({}));
}

// The matrix products that a kernel computes in float32; none if it computes something else.
std::vector<Product> products_of(const Case& of, const std::vector<Array>& operands, const std::vector<Array>& results) {
  const bool is_outer = of.op == Op::grouped_outer;
  const auto* einsum = std::get_if<graph::EinsumOf>(&of.attributes);
  if ((einsum == nullptr && of.op != Op::grouped_matmul && !is_outer) || operands.front().view.dtype != DType::float32) return {};
  const auto size = [](const Array& array, std::size_t dim) { return array.view.shape[dim]; };
  const Array &a = operands[0], &b = operands[1], &c = results[0];
  if (einsum != nullptr) {
    const std::string& text = einsum->equation;  // "ab,cd->ef"
    const bool a_transposed = text[0] != text[7], b_transposed = text[4] != text[8];
    return {
        {size(c, 0), size(c, 1), size(a, a_transposed ? 0 : 1), a_transposed, b_transposed, a.as<float>(), b.as<float>(), c.as<float>()}};
  }
  std::vector<Product> products;
  const std::int64_t rows = size(a, 0) / kExperts, width = size(a, 1), columns = size(c, is_outer ? 2 : 1);
  for (std::int64_t expert = 0; expert < kExperts; ++expert) {
    const float* const of_a = a.as<float>() + expert * rows * width;
    if (is_outer) {
      products.push_back(
          {width, columns, rows, true, false, of_a, b.as<float>() + expert * rows * columns, c.as<float>() + expert * width * columns});
    } else {
      const bool b_transposed = std::get<graph::GroupedMatmulOf>(of.attributes).transpose;
      products.push_back({rows, columns, width, false, b_transposed, of_a, b.as<float>() + expert * width * columns,
                          c.as<float>() + expert * rows * columns});
    }
  }
  return products;
}

// A comparison says something only if the library computes what the kernel did.
void check_same(const Library& library, const std::vector<Product>& products, const Array& result, const TypedKernel& kernel) {
  constexpr float kTolerance = 1e-4f;
  const std::span<float> values(result.as<float>(), static_cast<std::size_t>(result.view.count()));
  const std::vector<float> ours(values.begin(), values.end());
  std::fill(values.begin(), values.end(), 0.0f);
  std::for_each(products.begin(), products.end(), library.multiply);
  float largest = 0;
  bool differs = false;
  for (const float value : ours) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < ours.size(); ++i) differs = differs || !(std::abs(values[i] - ours[i]) <= kTolerance * largest);
  if (differs)
    fail(fmt::format("{} does not compute what moesh does", library.name), kernel.name, "look for what is wrong with the library");
}

using Run = std::function<void()>;

double seconds_of(const Run& run) {
  const auto begin = Clock::now();
  run();
  return seconds_since(begin);
}

// The median of each. Several take turns, each after a pause in which the threads of the one before fall asleep, and a run that fills the
// caches.
std::vector<double> median_seconds(const std::vector<Run>& runs) {
  constexpr double kLongEnough = 0.3;
  constexpr std::size_t kFewest = 3, kMost = 200;
  constexpr auto kPause = std::chrono::milliseconds(2);
  std::vector<std::vector<double>> seconds(runs.size());
  for (const Run& run : runs) run();
  for (double all = 0; seconds[0].size() < kFewest || (all < kLongEnough && seconds[0].size() < kMost); all += seconds[0].back()) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (runs.size() > 1) {
        std::this_thread::sleep_for(kPause);
        runs[i]();
      }
      seconds[i].push_back(seconds_of(runs[i]));
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& all : seconds) {
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::nth_element(all.begin(), middle, all.end());
    medians.push_back(*middle);
  }
  return medians;
}

std::string name_of(const Case& of) { return fmt::format("{}: {}", graph::name_of(of.op), of.name); }

std::vector<DType> types_of(const Case& of) {
  const auto is_open = [](const auto& value) { return value.of == Of::numbers; };
  const bool has_own = std::none_of(of.operands.begin(), of.operands.end(), is_open) &&
                       std::none_of(of.results.begin(), of.results.end(), is_open);
  if (has_own) return {type_of(of.operands.front().of, DType::float32)};
  return {DType::float32, DType::bfloat16};
}

}  // namespace

std::vector<TypedKernel> kernels_with(std::string_view text) {
  std::vector<TypedKernel> kernels;
  for (const Case& of : all_cases()) {
    const std::string name = name_of(of);
    if (name.find(text) == std::string::npos) continue;
    for (const DType dtype : types_of(of)) kernels.push_back({name, dtype});
  }
  return kernels;
}

KernelTime time_of(const TypedKernel& kernel, backend::Workers& workers, const std::vector<Library>& libraries) {
  const std::vector<Case> cases = all_cases();
  const auto found = std::find_if(cases.begin(), cases.end(), [&](const Case& of) { return name_of(of) == kernel.name; });
  assert(found != cases.end());
  const Case& of = *found;
  const auto pool = run::Pool::create();
  std::vector<Array> operands, results;
  for (const Operand& operand : of.operands) operands.push_back(operand_of(of, operand, kernel.dtype, *pool));
  for (const Result& result : of.results) results.push_back(pool->allocate(result.shape, type_of(result.of, kernel.dtype)));
  std::vector<backend::View> operand_views, result_views;
  for (const Array& operand : operands) operand_views.push_back(operand.view);
  for (const Array& result : results) result_views.push_back(result.view);
  const backend::Kernel run = backend::cpu_backend().find_kernel(of.op);
  const backend::KernelCall call{of.attributes, operand_views, result_views, workers};
  const std::vector<Product> products = products_of(of, operands, results);
  std::vector<Run> runs{[&] { run(call); }};
  for (const Library& library : libraries) {
    if (products.empty()) break;
    run(call);
    check_same(library, products, results[0], kernel);
    runs.emplace_back([&] { std::for_each(products.begin(), products.end(), library.multiply); });
  }
  const std::vector<double> seconds = median_seconds(runs);
  return {kernel, sizes_of(of.operands), seconds[0], work_of(of, operands, results), {seconds.begin() + 1, seconds.end()}};
}

}  // namespace moesh::measure
