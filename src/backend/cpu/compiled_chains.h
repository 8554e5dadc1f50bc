// Chains through which most elements go are compiled: 32 elements pass all steps in registers, with the bits of the steps one by one. Gates
// with GELU would gain nothing, as its sigmoid takes most of their time. A part of elementwise_shape.h.
#pragma once

struct CompiledStep {
  ChainStep::Kind kind;
  Unary unary;
  Binary binary;
  int a, b;  // operands of the chain, then results of its steps; a step of one operand has none at b

  bool is(const ChainStep& step) const {
    const bool is_function = kind == ChainStep::Kind::binary ? step.binary.function == binary : step.unary == graph::UnaryOf{unary};
    const int operands[] = {a, b};
    return kind == step.kind && is_function && std::equal(step.operands.begin(), step.operands.end(), operands, operands + (b < 0 ? 1 : 2));
  }
};
constexpr CompiledStep of_one(Unary function, int x) { return {ChainStep::Kind::unary, function, Binary::multiply, x, -1}; }
constexpr CompiledStep gradient_of(Unary function, int x, int dy) {
  return {ChainStep::Kind::unary_grad, function, Binary::multiply, x, dy};
}
constexpr CompiledStep product_of(int a, int b) { return {ChainStep::Kind::binary, Unary::identity, Binary::multiply, a, b}; }

template <std::size_t operand_count, std::size_t step_count, std::size_t result_count>
struct CompiledChain {
  static constexpr std::size_t kOperands = operand_count, kSteps = step_count, kResults = result_count;
  CompiledStep steps[step_count];
  std::size_t results[result_count];  // steps

  bool is(const graph::ChainOf& chain, std::size_t operands) const {
    if (operands != operand_count || chain.steps.size() != step_count || chain.result_count() != result_count) return false;
    for (std::size_t i = 0; i < step_count; ++i) {
      if (!steps[i].is(chain.steps[i])) return false;
    }
    for (std::size_t i = 0; i < result_count; ++i) {
      if (results[i] != chain.step_of(i)) return false;
    }
    return true;
  }
};

// A gated branch: silu(gate) x up. Backward: the cotangents of up and of gate, of gate, the product's cotangent and up; or, of gate, up and
// the cotangent, the product again and these cotangents.
constexpr CompiledChain<2, 2, 1> kGate{{of_one(Unary::silu, 0), product_of(2, 1)}, {1}};
constexpr CompiledChain<3, 4, 2> kGateGrad{
    {of_one(Unary::silu, 0), product_of(1, 3), product_of(1, 2), gradient_of(Unary::silu, 0, 5)}, {1, 3}};
constexpr CompiledChain<3, 5, 3> kGateAgainAndGrad{
    {of_one(Unary::silu, 0), product_of(3, 1), product_of(2, 3), product_of(2, 1), gradient_of(Unary::silu, 0, 6)}, {1, 2, 4}};

template <bool rounds>
struct InRegisters {
  static constexpr bool kRounds = rounds;
  Two& to;

  template <typename Function, typename... T>
  MOESH_INLINE void run(const Function& function, const T*... operands) const {
    to = {function.of(operands->first...), function.of(operands->second...)};
  }
};

template <typename Words, const auto& chain, std::size_t number>
MOESH_INLINE typename Words::Line value_of(const typename Words::Line* values) {
  constexpr CompiledStep step = chain.steps[number];
  Two value;
  const InRegisters<Words::kHasPairs> in_registers{value};
  const Two* const a = &values[step.a].floats;
  const Two* const b = &values[std::max(0, step.b)].floats;
  if constexpr (step.kind == ChainStep::Kind::binary) with_binary(step.binary, in_registers, a, b);
  else if constexpr (step.kind == ChainStep::Kind::unary_grad) with_unary_grad({step.unary}, in_registers, a, b);
  else with_unary({step.unary}, in_registers, a);
  return Words::line_of(value);
}

// Whole lines of 32 elements. Returns where the rest begins.
template <typename Words, const auto& chain, bool streams>
MOESH_INLINE std::int64_t run_lines(const KernelCall& call, std::int64_t begin, std::int64_t end) {
  using T = typename Words::Element;
  using Chain = std::remove_cvref_t<decltype(chain)>;
  constexpr std::int64_t kLine = 2 * kLanes16, kBytes = kLine * static_cast<std::int64_t>(sizeof(T));
  const T* from[Chain::kOperands];
  T* to[Chain::kResults];
  for (std::size_t i = 0; i < Chain::kOperands; ++i) from[i] = static_cast<const T*>(call.operands[i].data);
  for (std::size_t i = 0; i < Chain::kResults; ++i) to[i] = static_cast<T*>(call.results[i].data);
  const auto run_line = [&]<std::size_t... operand, std::size_t... step, std::size_t... result>(
      std::index_sequence<operand...>, std::index_sequence<step...>, std::index_sequence<result...>) MOESH_INLINE_LAMBDA {
    typename Words::Line values[Chain::kOperands + Chain::kSteps];
    ((values[operand] = Words::read_line(from[operand] + begin)), ...);
    for (std::int64_t byte = 0; byte < kBytes; byte += 64) {
      (__builtin_prefetch(reinterpret_cast<const char*>(from[operand] + begin) + kPieceBytesAhead + byte), ...);
    }
    ((values[Chain::kOperands + step] = value_of<Words, chain, step>(values)), ...);
    (Words::template write_line<streams>(values[Chain::kOperands + chain.results[result]], to[result] + begin), ...);
  };
  for (; begin + kLine <= end; begin += kLine) {
    run_line(std::make_index_sequence<Chain::kOperands>(), std::make_index_sequence<Chain::kSteps>(),
             std::make_index_sequence<Chain::kResults>());
  }
  return begin;
}

// Calls call.template operator()<compiled>() if there is one that is this chain.
template <typename Call>
MOESH_INLINE bool with_compiled(const graph::ChainOf& chain, std::size_t operands, const Call& call) {
  if (kGate.is(chain, operands)) return call.template operator()<kGate>(), true;
  if (kGateGrad.is(chain, operands)) return call.template operator()<kGateGrad>(), true;
  if (kGateAgainAndGrad.is(chain, operands)) return call.template operator()<kGateAgainAndGrad>(), true;
  return false;
}

// As much of a chain as is compiled, all of whose values are what Words reads. Returns where the rest begins.
template <typename Words>
MOESH_INLINE std::int64_t run_compiled(const KernelCall& call, std::int64_t begin, std::int64_t end, bool streams) {
  const auto run = [&]<const auto& compiled>() MOESH_INLINE_LAMBDA {
    begin = streams ? run_lines<Words, compiled, true>(call, begin, end) : run_lines<Words, compiled, false>(call, begin, end);
  };
  with_compiled(std::get<graph::ChainOf>(call.attributes), call.operands.size(), run);
  return begin;
}
