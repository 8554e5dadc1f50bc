// Gradient cases of products, elementwise functions, and ops that only move elements.
#include "graph/region.h"
#include "tests/graph/gradient_cases.h"

namespace moesh::graph::test {
namespace {

GradientCase einsum_case(const std::string& variant, const std::string& equation, const Shape& a, const Shape& b) {
  return {Op::einsum, variant, {random_numbers(a, 1), random_numbers(b, 2)}, [equation](Builder&, const Tensors& in) {
            return Tensors{einsum("y", equation, in[0], in[1])};
          }};
}

GradientCase unary_case(Unary function, double low, double high, double a = 0, double b = 0) {
  return {Op::unary,
          std::string(name_of(function)),
          {random_numbers({5, 7}, 3, low, high)},
          [=](Builder&, const Tensors& in) { return Tensors{unary(function, in[0], a, b)}; }};
}

// Marks a case whose slope is zero wherever it exists.
GradientCase flat(GradientCase of) {
  of.flat = {0};
  return of;
}

GradientCase binary_case(Binary function) {
  return {Op::binary,
          std::string(name_of(function)),
          {random_numbers({3, 5}, 4), random_numbers({3, 5}, 5, 0.5, 2)},
          [=](Builder&, const Tensors& in) { return Tensors{binary(function, in[0], in[1])}; }};
}

template <typename Build>
GradientCase of_one(Op op, const std::string& variant, const Shape& shape, Build build) {
  return {
      op, variant, {random_numbers(shape, 6)}, [build](Builder&, const Tensors& in) { return Tensors{build(in[0])}; }};
}

// A region on one device, where shards are whole values.
template <typename Build>
Tensors one_device_region(Builder& builder, const Tensors& in, const std::vector<Shape>& shapes, Build build) {
  std::vector<RegionOperand> operands;
  for (const Tensor& operand : in) operands.push_back({operand, sharding::whole_spec(operand.shape().size())});
  return region(builder, "experts", {}, operands, mesh::Mesh({}), [&](Builder&, const Tensors& local) {
    std::vector<RegionResult> results;
    for (const Tensor& made : build(local)) {
      const Shape& shape = shapes[results.size()];
      results.push_back({made, shape, sharding::whole_spec(shape.size())});
    }
    return results;
  });
}

}  // namespace

GradientCases elementwise_cases() {
  GradientCases all{
      einsum_case("projection", "bsm,mh->bsh", {1, 3, 5}, {5, 7}),
      einsum_case("heads", "bsm,mhd->bshd", {2, 3, 5}, {5, 3, 7}),
      einsum_case("out", "bshd,hdm->bsm", {2, 3, 1, 7}, {1, 7, 5}),
      einsum_case("tied", "bsm,vm->bsv", {2, 3, 5}, {7, 5}),
      einsum_case("dispatch", "bsm,bsec->ebcm", {2, 5, 3}, {2, 5, 3, 1}),
      einsum_case("combine", "ebcm,bsec->bsm", {3, 2, 1, 5}, {2, 7, 3, 1}),
      einsum_case("experts", "ebcm,emf->ebcf", {3, 1, 5, 7}, {3, 7, 5}),
      einsum_case("outer", "a,b->ab", {3}, {5}),
      einsum_case("dot", "a,a->", {7}, {7}),
      einsum_case("elementwise", "ab,ba->ab", {3, 5}, {5, 3}),
      {Op::einsum,
       "gram",
       {random_numbers({3, 5, 7}, 1)},
       [](Builder&, const Tensors& in) { return Tensors{einsum("y", "bmn,bkn->bmk", in[0], in[0])}; }},
      unary_case(Unary::silu, -4, 4),
      unary_case(Unary::sigmoid, -4, 4),
      unary_case(Unary::gelu, -4, 4),
      unary_case(Unary::relu, -1, 1),
      unary_case(Unary::tanh, -2, 2),
      unary_case(Unary::exp, -2, 2),
      unary_case(Unary::softplus, -4, 4),
      unary_case(Unary::identity, -1, 1),
      unary_case(Unary::scale, -1, 1, -2.5),
      unary_case(Unary::offset, -1, 1, 3),
      unary_case(Unary::clamp, -2, 2, -1, 0.5),
      unary_case(Unary::sqrt, 0.2, 3),
      unary_case(Unary::rsqrt, 0.2, 3),
      unary_case(Unary::minimum, -1, 1, 0.25),
      flat(unary_case(Unary::finite, -1, 1)),
      binary_case(Binary::add),
      binary_case(Binary::subtract),
      binary_case(Binary::multiply),
      binary_case(Binary::divide),
      {Op::binary,
       "of_a_value_with_itself",
       {random_numbers({7}, 4, 0.5, 2)},
       [](Builder&, const Tensors& in) {
         return Tensors{multiply(binary(Binary::divide, in[0], add(in[0], in[0])), in[0])};
       }},
      // Sixteenths, moved by 2^-10, are exact in float32, so that the differences give the slope of 1.
      {Op::cast,
       "float32",
       {values(DType::float64, {3}, {0.0625, -0.5, 0.8125})},
       [](Builder&, const Tensors& in) { return Tensors{cast(cast(in[0], DType::float32), DType::float64)}; },
       0x1p-10},
  };
  return all;
}

GradientCases shape_cases() {
  return {
      of_one(Op::broadcast, "scalar", {},
             [](Tensor x) {
               return broadcast(x, {3, 5}, {});
             }),
      of_one(Op::broadcast, "front", {5},
             [](Tensor x) {
               return broadcast(x, {3, 5}, {1});
             }),
      of_one(Op::broadcast, "between", {3, 7},
             [](Tensor x) {
               return broadcast(x, {3, 5, 7, 1}, {0, 2});
             }),
      of_one(Op::broadcast, "nothing", {3, 7},
             [](Tensor x) {
               return broadcast(x, {3, 7}, {0, 1});
             }),
      of_one(Op::reduce, "last", {3, 5}, [](Tensor x) { return reduce(Reduction::sum, x, {1}); }),
      of_one(Op::reduce, "outer", {3, 5, 7},
             [](Tensor x) {
               return reduce(Reduction::sum, x, {0, 2});
             }),
      of_one(Op::reduce, "all", {3, 5},
             [](Tensor x) {
               return reduce(Reduction::sum, x, {0, 1});
             }),
      of_one(Op::reshape, "", {3, 10},
             [](Tensor x) {
               return reshape(x, {5, 1, 6});
             }),
      of_one(Op::transpose, "cycle", {3, 5, 7},
             [](Tensor x) {
               return transpose(x, {2, 0, 1});
             }),
      of_one(Op::transpose, "swap", {1, 3, 5, 7},
             [](Tensor x) {
               return transpose(x, {0, 2, 1, 3});
             }),
      of_one(Op::slice, "front", {5, 3}, [](Tensor x) { return slice(x, 0, 0, 2); }),
      of_one(Op::slice, "middle", {3, 7, 5}, [](Tensor x) { return slice(x, 1, 2, 3); }),
      of_one(Op::slice, "whole", {3, 5}, [](Tensor x) { return slice(x, 1, 0, 5); }),
      of_one(Op::pad, "front", {3, 5}, [](Tensor x) { return pad(x, 0, 2, 0); }),
      of_one(Op::pad, "both", {3, 5}, [](Tensor x) { return pad(x, 1, 1, 3); }),
      {Op::concat,
       "front",
       {random_numbers({1, 5}, 1), random_numbers({3, 5}, 2), random_numbers({2, 5}, 3)},
       [](Builder&, const Tensors& in) { return Tensors{concat(in, 0)}; }},
      {Op::concat,
       "of_a_value_twice",
       {random_numbers({3, 2}, 1), random_numbers({3, 5}, 2)},
       [](Builder&, const Tensors& in) {
         return Tensors{concat({in[0], in[1], in[0]}, 1)};
       }},
      {Op::constraint,
       "",
       {random_numbers({3, 5}, 1)},
       [](Builder&, const Tensors& in) {
         return Tensors{constrain("laid", in[0], Labels{"activation_batch", ""})};
       }},
      {Op::region,
       "",
       {random_numbers({3, 5}, 1), draws({3, 5}, 2, 4), random_numbers({5, 2}, 3)},
       [](Builder& b, const Tensors& in) {
         return one_device_region(b, in, {{3, 2}, {}, {3, 5}}, [](const Tensors& local) {
           const Tensor y = einsum("y", "ab,bc->ac", local[0], local[2]);
           return Tensors{unary(Unary::silu, y), reduce(Reduction::sum, multiply(y, y), {0, 1}),
                          multiply(local[0], cast(local[1], DType::float64))};
         });
       }},
      // Only one of the region's results is used.
      {Op::region,
       "in_part",
       {random_numbers({3, 5}, 1), random_numbers({5}, 2)},
       [](Builder& b, const Tensors& in) {
         const Tensors made = one_device_region(b, in, {{3, 5}, {5}}, [](const Tensors& local) {
           return Tensors{add_bias(local[0], local[1]), unary(Unary::silu, local[1])};
         });
         return Tensors{multiply(made[0], made[0])};
       }},
  };
}

}  // namespace moesh::graph::test
