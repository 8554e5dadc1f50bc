#include "gemm_cases.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <fmt/core.h>

#include "base/bfloat16.h"

namespace moesh::bench {
namespace {

std::int64_t total(const Case& of) { return std::accumulate(of.groups.begin(), of.groups.end(), std::int64_t{0}); }

std::string equation_of(const Case& of) {
  const std::string b = of.batch > 1 ? "b" : "";
  switch (of.layout) {
    case Layout::plain: return b + "mk," + b + "kn->" + b + "mn";
    case Layout::b_transposed: return b + "mk," + b + "nk->" + b + "mn";
    case Layout::a_transposed: return b + "km," + b + "kn->" + b + "mn";
  }
  return "";
}

constexpr std::int32_t kRoutedRows = 4096;  // rows of all experts together

std::vector<std::int32_t> even_rows(int experts) { return std::vector<std::int32_t>(static_cast<std::size_t>(experts), kRoutedRows / experts); }

// Rows per expert, where the i-th expert has 1 / i of the rows of the first.
std::vector<std::int32_t> zipf_rows(int experts) {
  double all = 0;
  for (int i = 1; i <= experts; ++i) all += 1.0 / i;
  std::vector<std::int32_t> rows;
  for (int i = 1; i <= experts; ++i) rows.push_back(std::max(1, static_cast<int>(kRoutedRows / (i * all))));
  return rows;
}

Shape with_batch(const Case& of, Shape shape) {
  if (of.batch > 1) shape.insert(shape.begin(), of.batch);
  return shape;
}

}  // namespace

std::vector<Case> cases() {
  using enum Layout;
  std::vector<Case> all{
      {"projection", plain, 1, 256, 128, 128},
      {"projection", plain, 1, 512, 512, 256},
      {"projection", plain, 1, 1024, 256, 512},
      {"projection", plain, 1, 2048, 256, 256},
      {"projection", plain, 1, 2048, 512, 512},
      {"projection", plain, 1, 2048, 1024, 512},
      {"projection", plain, 1, 4096, 1024, 1024},
      {"projection", plain, 1, 4096, 512, 1792},
      {"projection to latents", plain, 1, 2048, 64, 512},
      {"projection from latents", plain, 1, 2048, 768, 64},
      {"router", plain, 1, 2048, 32, 512},
      {"vocabulary", plain, 1, 512, 8192, 256},
      {"few rows", plain, 1, 8, 1024, 512},
      {"few rows", plain, 1, 8, 1792, 512},
      {"few rows", plain, 1, 32, 1024, 1024},
      {"few rows", plain, 1, 64, 512, 512},
      {"few rows", plain, 1, 128, 1408, 2048},
      {"its input's gradient", b_transposed, 1, 512, 256, 512},
      {"its input's gradient", b_transposed, 1, 2048, 256, 512},
      {"its input's gradient", b_transposed, 1, 2048, 512, 1024},
      {"its input's gradient", b_transposed, 1, 4096, 1024, 1024},
      {"its input's gradient", b_transposed, 1, 2048, 256, 128},
      {"its input's gradient", b_transposed, 1, 512, 256, 8192},
      {"its weights' gradient", a_transposed, 1, 256, 512, 512},
      {"its weights' gradient", a_transposed, 1, 512, 1024, 2048},
      {"its weights' gradient", a_transposed, 1, 128, 256, 4096},
      {"its weights' gradient", a_transposed, 1, 256, 128, 2048},
      {"its weights' gradient", a_transposed, 1, 256, 256, 2048},
      {"its weights' gradient", a_transposed, 1, 256, 8192, 512},
      {"its weights' gradient", a_transposed, 1, 1024, 1024, 4096},
      {"scores of 32 heads", b_transposed, 32, 128, 128, 64},
      {"scores of 8 heads", b_transposed, 8, 512, 512, 64},
      {"scores of 16 heads", b_transposed, 16, 256, 256, 128},
      {"values of 8 heads", plain, 8, 512, 64, 512},
      {"values of 16 heads", plain, 16, 256, 128, 256},
      {"even experts", plain, 8, 64, 512, 256},
      {"even experts", plain, 16, 128, 1024, 512},
      {"square", plain, 1, 512, 512, 512},
      {"square", plain, 1, 1024, 1024, 1024},
      {"large and square", plain, 1, 2048, 2048, 2048},
  };
  for (const int experts : {8, 16, 32, 64}) {
    for (const auto& [kind, rows] : {std::pair{"even", even_rows(experts)}, std::pair{"Zipf", zipf_rows(experts)}}) {
      all.push_back({fmt::format("{} experts", kind), plain, 1, 0, 512, 256, rows});
      all.push_back({fmt::format("{}, input's gradient", kind), b_transposed, 1, 0, 256, 512, rows});
      all.push_back({fmt::format("{}, weights' gradient", kind), a_transposed, 1, 256, 512, 0, rows});
    }
  }
  return all;
}

double Case::operations() const {
  const auto of_all = static_cast<double>(groups.empty() ? batch * rows * depth : total(*this) * (depth + rows));
  return 2 * of_all * static_cast<double>(columns);
}

std::string Case::shape() const {
  const char* sign = layout == Layout::plain ? "a b" : layout == Layout::b_transposed ? "a b'" : "a'b";
  if (groups.empty()) return fmt::format("{:>2} x {} {}x{}x{}", batch, sign, rows, columns, depth);
  const auto [least, most] = std::minmax_element(groups.begin(), groups.end());
  const std::string size = *least == *most ? fmt::format("{}", *least) : fmt::format("{}..{}", *least, *most);
  return layout == Layout::a_transposed ? fmt::format("{:>2} x {} {}x{}x{}", groups.size(), sign, rows, columns, size)
                                    : fmt::format("{:>2} x {} {}x{}x{}", groups.size(), sign, size, columns, depth);
}

Trial::Trial(const Case& of, bool bfloat16) : of_(of), problem_{bfloat16, {}} {
  const DType dtype = bfloat16 ? DType::bfloat16 : DType::float32;
  const auto experts = static_cast<std::int64_t>(of.groups.size());
  const std::int64_t m = of.rows, n = of.columns, k = of.depth;
  if (of.groups.empty()) {
    a_.shape = with_batch(of, of.layout == Layout::a_transposed ? Shape{k, m} : Shape{m, k});
    b_.shape = with_batch(of, of.layout == Layout::b_transposed ? Shape{n, k} : Shape{k, n});
    c_.shape = with_batch(of, {m, n});
  } else if (of.layout == Layout::a_transposed) {
    a_.shape = {total(of), m};
    b_.shape = {total(of), n};
    c_.shape = {experts, m, n};
  } else {
    a_.shape = {total(of), k};
    b_.shape = of.layout == Layout::b_transposed ? Shape{experts, n, k} : Shape{experts, k, n};
    c_.shape = {total(of), n};
  }
  backend::View* views[] = {&a_, &b_, &c_};
  for (std::size_t i = 0; i < 3; ++i) {
    views[i]->dtype = dtype;
    views[i]->data = memory_[i].of<std::byte>(views[i]->count() * size_of(dtype));
    fill(views[i]->data, views[i]->count(), static_cast<unsigned>(i));
  }
  of.groups.empty() ? lay_batch() : lay_groups();
}

void Trial::fill(void* data, std::int64_t count, unsigned seed) const {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = uniform(random);
    if (problem_.bfloat16) {
      static_cast<bfloat16*>(data)[i] = bfloat16(value);
    } else {
      static_cast<float*>(data)[i] = value;
    }
  }
}

void Trial::lay_batch() {
  const std::int64_t bytes = size_of(a_.dtype), m = of_.rows, n = of_.columns, k = of_.depth;
  const auto at = [&](const backend::View& view, std::int64_t element) { return view.raw() + element * bytes; };
  for (std::int64_t i = 0; i < of_.batch; ++i) {
    const bool a_transposed = of_.layout == Layout::a_transposed, b_transposed = of_.layout == Layout::b_transposed;
    problem_.products.push_back({m,
                                 n,
                                 k,
                                 {at(a_, i * m * k), a_transposed ? 1 : k, a_transposed ? m : 1},
                                 {at(b_, i * k * n), b_transposed ? 1 : n, b_transposed ? k : 1},
                                 at(c_, i * m * n)});
  }
}

void Trial::lay_groups() {
  const std::int64_t bytes = size_of(a_.dtype), m = of_.rows, n = of_.columns, k = of_.depth;
  const auto at = [&](const backend::View& view, std::int64_t element) { return view.raw() + element * bytes; };
  std::int64_t begin = 0;
  for (std::size_t e = 0; e < of_.groups.size(); ++e) {
    const std::int64_t size = of_.groups[e], expert = static_cast<std::int64_t>(e);
    if (of_.layout == Layout::a_transposed) {
      problem_.products.push_back(
          {m, n, size, {at(a_, begin * m), 1, m}, {at(b_, begin * n), n, 1}, at(c_, expert * m * n)});
    } else {
      const bool turned = of_.layout == Layout::b_transposed;
      problem_.products.push_back({size,
                                   n,
                                   k,
                                   {at(a_, begin * k), k, 1},
                                   {at(b_, expert * k * n), turned ? 1 : n, turned ? k : 1},
                                   at(c_, begin * n)});
    }
    begin += size;
  }
}

Job Trial::ours(int threads) const {
  struct Call {
    graph::Attributes attributes;
    std::vector<backend::View> operands;
    backend::View result;
    std::vector<std::int32_t> sizes;
    backend::Workers workers;
    backend::Kernel kernel;
  };
  const bool outer = of_.layout == Layout::a_transposed;
  const graph::Op op = of_.groups.empty() ? graph::Op::einsum
                       : outer            ? graph::Op::grouped_outer
                                          : graph::Op::grouped_matmul;
  auto call =
      std::shared_ptr<Call>(new Call{{}, {a_, b_}, c_, of_.groups, backend::Workers(threads), backend::cpu_backend().find_kernel(op)});
  if (of_.groups.empty()) {
    call->attributes = graph::EinsumOf{equation_of(of_)};
  } else {
    if (!outer) call->attributes = graph::GroupedMatmulOf{of_.layout == Layout::b_transposed};
    call->operands.push_back({call->sizes.data(), DType::int32, {static_cast<std::int64_t>(call->sizes.size())}});
  }
  return [call] {
    const std::span<const backend::View> results(&call->result, 1);
    call->kernel({call->attributes, call->operands, results, call->workers});
  };
}

std::vector<float> Trial::result() const {
  std::vector<float> all(static_cast<std::size_t>(c_.count()));
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = problem_.bfloat16 ? static_cast<float>(c_.as<bfloat16>()[i]) : c_.as<float>()[i];
  }
  return all;
}

void Trial::clear_result() { std::fill_n(c_.raw(), c_.count() * size_of(c_.dtype), std::byte{0}); }

}  // namespace moesh::bench
