// Contractions: einsum, and grouped GEMMs over the rows of each expert.
#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "backend/element.h"
#include "backend/reference/kernels.h"
#include "base/place.h"
#include "graph/equation.h"

namespace moesh::backend::reference {
namespace {


// A letter of an equation: its size, and its strides in the operands and the result.
struct Letter {
  std::int64_t size = 1;
  std::int64_t a = 0, b = 0, out = 0;
};

// `read`: the shape of what is read of the operand.
void place(const std::string& letters, const Shape& shape, const Shape& read, std::map<char, Letter>& all, std::int64_t Letter::* stride) {
  std::int64_t step = 1;
  for (std::size_t i = letters.size(); i-- > 0;) {
    all[letters[i]].size = read[i];
    all[letters[i]].*stride = step;
    step *= shape[i];
  }
}

struct Loops {
  std::vector<Letter> outer, inner;  // letters of the result; contracted letters
  std::int64_t b_begin = 0;          // where what is read of the second operand begins
};

Loops loops_of(const KernelCall& call) {
  const auto& of = std::get<graph::EinsumOf>(call.attributes);
  const auto [a, b, out] = graph::parse_equation(of.equation);
  const Shape &shape_a = call.operands[0].shape, &shape_b = call.operands[1].shape, &shape_out = call.results[0].shape;
  std::map<char, Letter> all;
  place(a, shape_a, shape_a, all, &Letter::a);
  place(b, shape_b, graph::shape_read(of, shape_b), all, &Letter::b);
  place(out, shape_out, shape_out, all, &Letter::out);
  Loops loops;
  if (of.part_size > 0) loops.b_begin = of.part_begin * all[b[at(of.part_dim)]].b;
  for (const char letter : out) loops.outer.push_back(all[letter]);
  for (const auto& [letter, found] : all) {
    if (out.find(letter) == std::string::npos) loops.inner.push_back(found);
  }
  return loops;
}

// The offsets into both operands for every combination of the letters' indices.
std::vector<std::pair<std::int64_t, std::int64_t>> offsets(const std::vector<Letter>& letters) {
  std::vector<std::pair<std::int64_t, std::int64_t>> all{{0, 0}};
  for (const Letter& letter : letters) {
    std::vector<std::pair<std::int64_t, std::int64_t>> next;
    for (const auto& [a, b] : all) {
      for (std::int64_t i = 0; i < letter.size; ++i) next.emplace_back(a + i * letter.a, b + i * letter.b);
    }
    all = std::move(next);
  }
  return all;
}

void einsum(const KernelCall& call) {
  const Loops loops = loops_of(call);
  const auto outer = offsets(loops.outer);
  const auto inner = offsets(loops.inner);
  with_product_types(call.operands[0].dtype, call.results[0].dtype, [&]<typename T, typename R>() {
    const T* a = call.operands[0].as<T>();
    const T* b = call.operands[1].as<T>() + loops.b_begin;
    call.workers.parallel(static_cast<std::int64_t>(outer.size()), 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto& [first, second] = outer[static_cast<std::size_t>(i)];
        Wide<T> sum = 0;
        for (const auto& [x, y] : inner) sum += load(a[first + x]) * load(b[second + y]);
        if (call.operands.size() > 2) sum += static_cast<Wide<T>>(load(call.operands[2].as<R>()[i]));
        call.results[0].as<R>()[i] = store<R>(sum);
      }
    });
  });
}

// Where each expert's rows begin, then where the last expert's rows end.
std::vector<std::int64_t> begins(const View& sizes) {
  std::vector<std::int64_t> all{0};
  for (std::int64_t e = 0; e < sizes.count(); ++e) all.push_back(all.back() + sizes.as<std::int32_t>()[e]);
  return all;
}

void grouped_matmul(const KernelCall& call) {
  const bool transpose = std::get<graph::GroupedMatmulOf>(call.attributes).transpose;
  const auto first = begins(call.operands[2]);
  const View& out = call.results[0];
  const std::int64_t depth = call.operands[0].size(1);
  const std::int64_t width = out.size(1);
  with_product_types(call.operands[0].dtype, out.dtype, [&]<typename T, typename R>() {
    if (call.operands.size() == 3) std::fill_n(out.as<R>(), out.count(), store<R>(0.0f));
    else if (call.operands[3].data != out.data) std::copy_n(call.operands[3].as<R>(), out.count(), out.as<R>());
    for (std::size_t e = 0; e + 1 < first.size(); ++e) {
      const T* weights = call.operands[1].as<T>() + static_cast<std::int64_t>(e) * depth * width;
      for (std::int64_t row = first[e]; row < first[e + 1]; ++row) {
        for (std::int64_t n = 0; n < width; ++n) {
          Wide<T> sum = 0;
          for (std::int64_t d = 0; d < depth; ++d) {
            sum += load(call.operands[0].as<T>()[row * depth + d]) * load(weights[transpose ? n * depth + d : d * width + n]);
          }
          if (call.operands.size() > 3) sum += static_cast<Wide<T>>(load(out.as<R>()[row * width + n]));
          out.as<R>()[row * width + n] = store<R>(sum);
        }
      }
    }
  });
}

void grouped_outer(const KernelCall& call) {
  const auto first = begins(call.operands[2]);
  const View& out = call.results[0];
  const std::int64_t depth = out.size(1);
  const std::int64_t width = out.size(2);
  with_product_types(call.operands[0].dtype, out.dtype, [&]<typename T, typename R>() {
    for (std::size_t e = 0; e + 1 < first.size(); ++e) {
      for (std::int64_t d = 0; d < depth; ++d) {
        for (std::int64_t n = 0; n < width; ++n) {
          Wide<T> sum = 0;
          for (std::int64_t row = first[e]; row < first[e + 1]; ++row) {
            sum += load(call.operands[0].as<T>()[row * depth + d]) * load(call.operands[1].as<T>()[row * width + n]);
          }
          out.as<R>()[(static_cast<std::int64_t>(e) * depth + d) * width + n] = store<R>(sum);
        }
      }
    }
  });
}

void grouped_bias(const KernelCall& call) {
  const auto first = begins(call.operands[2]);
  const View& out = call.results[0];
  const std::int64_t width = out.size(1);
  for_floating(out.dtype, [&]<typename T>() {
    std::copy_n(call.operands[0].as<T>(), out.count(), out.as<T>());
    for (std::size_t e = 0; e + 1 < first.size(); ++e) {
      for (std::int64_t i = first[e] * width; i < first[e + 1] * width; ++i) {
        const auto bias = load(call.operands[1].as<T>()[static_cast<std::int64_t>(e) * width + i % width]);
        out.as<T>()[i] = store<T>(load(out.as<T>()[i]) + bias);
      }
    }
  });
}

void grouped_sum(const KernelCall& call) {
  const auto first = begins(call.operands[1]);
  const View& out = call.results[0];
  const std::int64_t width = out.size(1);
  for_floating(out.dtype, [&]<typename T>() {
    for (std::size_t e = 0; e + 1 < first.size(); ++e) {
      for (std::int64_t n = 0; n < width; ++n) {
        Wide<T> sum = 0;
        for (std::int64_t row = first[e]; row < first[e + 1]; ++row) sum += load(call.operands[0].as<T>()[row * width + n]);
        out.as<T>()[static_cast<std::int64_t>(e) * width + n] = store<T>(sum);
      }
    }
  });
}

}  // namespace

Kernel find_products(graph::Op op) {
  switch (op) {
    case graph::Op::einsum: return einsum;
    case graph::Op::grouped_matmul: return grouped_matmul;
    case graph::Op::grouped_outer: return grouped_outer;
    case graph::Op::grouped_bias: return grouped_bias;
    case graph::Op::grouped_sum: return grouped_sum;
    default: return nullptr;
  }
}

}  // namespace moesh::backend::reference
