// An einsum as a batched GEMM: letters in both operands and in the result are the batch, letters that the result lacks are the depth, and
// the others are rows or columns.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/added_to.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/kernels.h"
#include "base/place.h"
#include "graph/equation.h"

namespace moesh::backend::cpu {
namespace {

struct Term {
  std::string letters;
  const View* view;
  std::size_t part_dim = 0;  // what is read of it, as in EinsumOf
  std::int64_t part_size = 0, part_begin = 0;

  bool has(char letter) const { return letters.find(letter) != std::string::npos; }
  std::int64_t size(char letter) const {
    const std::size_t dim = letters.find(letter);
    return part_size > 0 && dim == part_dim ? part_size : view->shape[dim];
  }
  std::int64_t stride(char letter) const {
    std::int64_t stride = 1;
    for (std::size_t dim = letters.find(letter) + 1; dim < letters.size(); ++dim) stride *= view->shape[dim];
    return stride;
  }
  std::int64_t begin() const { return part_begin == 0 ? 0 : part_begin * stride(letters[part_dim]); }  // the offset of what is read
};

struct Terms {
  Term a;
  Term b;
  Term result;
};

Terms parse(const graph::EinsumOf& of, const KernelCall& call) {
  const graph::Equation letters = graph::parse_equation(of.equation);
  return {{letters.a, &call.operands[0]},
          {letters.b, &call.operands[1], at(of.part_dim), of.part_size, of.part_begin},
          {letters.result, &call.results[0]}};
}

// The letters of `from` that `in` has and `but_not` does not have.
std::string letters_of(const Term& from, const Term& in, const Term& but_not) {
  std::string letters;
  for (const char letter : from.letters) {
    if (in.has(letter) && !but_not.has(letter)) letters += letter;
  }
  return letters;
}

// The offsets in a term of the elements that these letters index, if they go in equal steps.
std::optional<OffsetList> even_offsets_of(const std::string& letters, const Term& term) {
  std::int64_t count = 1, step = 1;
  for (auto letter = letters.rbegin(); letter != letters.rend(); ++letter) {
    if (term.size(*letter) == 1) continue;
    if (count == 1) step = term.stride(*letter);
    else if (term.stride(*letter) != count * step) return std::nullopt;
    count *= term.size(*letter);
  }
  return steps(count, step);
}

// The offsets in a term of the elements that these letters index; the last letter varies fastest.
OffsetList offsets_of(const std::string& letters, const Term& term) {
  if (std::optional<OffsetList> even = even_offsets_of(letters, term)) return std::move(*even);
  ScratchList<std::int64_t> offsets{0};
  for (const char letter : letters) {
    const std::int64_t size = term.size(letter);
    const std::int64_t stride = term.stride(letter);
    ScratchList<std::int64_t> finer(offsets.size() * static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < offsets.size(); ++i) lay_steps(offsets[i], stride, size, finer.data() + i * static_cast<std::size_t>(size));
    offsets = std::move(finer);
  }
  return offsets;
}

template <typename T, typename R>
void multiply_terms(const KernelCall& call, const Terms& terms) {
  const std::string depth = letters_of(terms.a, terms.b, terms.result);
  // The innermost dim of the result should be among the columns, so that rows are contiguous and written in one go.
  const bool is_swapped = !terms.result.letters.empty() && !terms.b.has(terms.result.letters.back());
  const Term& a = is_swapped ? terms.b : terms.a;
  const Term& b = is_swapped ? terms.a : terms.b;
  const Term& c = terms.result;
  std::string batch;
  for (const char letter : c.letters) {
    if (a.has(letter) && b.has(letter)) batch += letter;
  }
  const std::string rows = letters_of(c, a, b);
  const std::string columns = letters_of(c, b, a);
  const OffsetList a_batch = offsets_of(batch, a), a_rows = offsets_of(rows, a), a_depth = offsets_of(depth, a);
  const OffsetList b_batch = offsets_of(batch, b), b_depth = offsets_of(depth, b), b_columns = offsets_of(columns, b);
  const OffsetList c_batch = offsets_of(batch, c), c_rows = offsets_of(rows, c), c_columns = offsets_of(columns, c);
  multiply<T, T, R>(&call.workers, chosen_isa(), {a.view->as<const T>() + a.begin(), a_batch, a_rows, a_depth},
                 {b.view->as<const T>() + b.begin(), b_batch, b_depth, b_columns}, {c.view->as<R>(), c_batch, c_rows, c_columns},
                 {.add = starts_from_operand(call, 2)});
}

}  // namespace

void einsum(const KernelCall& call) {
  const Terms terms = parse(std::get<graph::EinsumOf>(call.attributes), call);
  with_product_types(call.operands[0].dtype, call.results[0].dtype, [&]<typename T, typename R>() { multiply_terms<T, R>(call, terms); });
}

}  // namespace moesh::backend::cpu
