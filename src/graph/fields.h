// The fields of each op's attributes, with their names in print: printing and reading both use these lists. A number at its default is not
// printed.
#pragma once

#include <array>
#include <string_view>
#include <tuple>

#include "graph/graph.h"

namespace moesh::graph {

template <typename Of, typename T>
struct Field {
  std::string_view name;
  T Of::*member;
};
template <typename Of, typename T>
Field(std::string_view, T Of::*) -> Field<Of, T>;

inline bool operator==(const Initializer& a, const Initializer& b) {
  return a.kind == b.kind && a.fan_in == b.fan_in && a.divisor == b.divisor && a.has_tails == b.has_tails;
}

constexpr auto fields_of(const Initializer*) {
  return std::tuple{Field{"kind", &Initializer::kind}, Field{"fan_in", &Initializer::fan_in}, Field{"divisor", &Initializer::divisor},
                    Field{"has_tails", &Initializer::has_tails}};
}
constexpr auto fields_of(const ParameterOf*) {
  return std::tuple{Field{"labels", &ParameterOf::labels}, Field{"starts", &ParameterOf::initializer},
                    Field{"role", &ParameterOf::role}, Field{"labelled", &ParameterOf::labelled},
                    Field{"first", &ParameterOf::first}, Field{"stacks_in_front", &ParameterOf::stacks_in_front}};
}
constexpr auto fields_of(const InputOf*) {
  return std::tuple{Field{"labels", &InputOf::labels}, Field{"kind", &InputOf::kind}, Field{"first", &InputOf::first}};
}
constexpr auto fields_of(const EinsumOf*) {
  return std::tuple{Field{"equation", &EinsumOf::equation}, Field{"rounded", &EinsumOf::rounded},
                    Field{"part_dim", &EinsumOf::part_dim}, Field{"part_begin", &EinsumOf::part_begin},
                    Field{"part_size", &EinsumOf::part_size}};
}
constexpr auto fields_of(const UnaryOf*) {
  return std::tuple{Field{"function", &UnaryOf::function}, Field{"a", &UnaryOf::a}, Field{"b", &UnaryOf::b}};
}
constexpr auto fields_of(const BinaryOf*) { return std::tuple{Field{"function", &BinaryOf::function}}; }
constexpr auto fields_of(const ChainStep*) {
  return std::tuple{Field{"kind", &ChainStep::kind}, Field{"unary", &ChainStep::unary}, Field{"binary", &ChainStep::binary},
                    Field{"dtype", &ChainStep::dtype}, Field{"operands", &ChainStep::operands}};
}
constexpr auto fields_of(const ChainOf*) { return std::tuple{Field{"steps", &ChainOf::steps}, Field{"results", &ChainOf::results}}; }
constexpr auto fields_of(const BroadcastOf*) { return std::tuple{Field{"dims", &BroadcastOf::dims}}; }
constexpr auto fields_of(const ReduceOf*) {
  return std::tuple{Field{"function", &ReduceOf::function}, Field{"dims", &ReduceOf::dims}};
}
constexpr auto fields_of(const TransposeOf*) { return std::tuple{Field{"order", &TransposeOf::order}}; }
constexpr auto fields_of(const SliceOf*) {
  return std::tuple{Field{"dim", &SliceOf::dim}, Field{"begin", &SliceOf::begin}, Field{"size", &SliceOf::size}};
}
constexpr auto fields_of(const ConcatOf*) { return std::tuple{Field{"dim", &ConcatOf::dim}}; }
constexpr auto fields_of(const PadOf*) {
  return std::tuple{Field{"dim", &PadOf::dim}, Field{"before", &PadOf::before}, Field{"after", &PadOf::after}};
}
constexpr auto fields_of(const FillOf*) { return std::tuple{Field{"value", &FillOf::value}}; }
constexpr auto fields_of(const AdamOf*) {
  return std::tuple{Field{"beta1", &AdamOf::beta1},
                    Field{"beta2", &AdamOf::beta2},
                    Field{"mu_decay", &AdamOf::mu_decay},
                    Field{"nu_decay", &AdamOf::nu_decay},
                    Field{"epsilon", &AdamOf::epsilon},
                    Field{"epsilon_root", &AdamOf::epsilon_root},
                    Field{"weight_decay", &AdamOf::weight_decay},
                    Field{"nesterov", &AdamOf::nesterov},
                    Field{"pax", &AdamOf::pax}};
}
constexpr auto fields_of(const SgdOf*) { return std::tuple{Field{"weight_decay", &SgdOf::weight_decay}}; }
constexpr auto fields_of(const MomentumOf*) {
  return std::tuple{Field{"beta", &MomentumOf::beta}, Field{"decay", &MomentumOf::decay}};
}
constexpr auto fields_of(const BalanceOf*) {
  return std::tuple{Field{"rate", &BalanceOf::rate}, Field{"experts_dim", &BalanceOf::experts_dim}};
}
constexpr auto fields_of(const ClipOf*) {
  return std::tuple{Field{"threshold", &ClipOf::threshold}, Field{"dims", &ClipOf::dims}, Field{"halved", &ClipOf::halved},
                    Field{"scales_rest", &ClipOf::scales_rest}};
}
constexpr auto fields_of(const RmsNormOf*) { return std::tuple{Field{"epsilon", &RmsNormOf::epsilon}, Field{"width", &RmsNormOf::width}}; }
constexpr auto fields_of(const RopeOf*) {
  return std::tuple{Field{"kind", &RopeOf::kind},
                    Field{"interleave", &RopeOf::interleave},
                    Field{"min_timescale", &RopeOf::min_timescale},
                    Field{"max_timescale", &RopeOf::max_timescale},
                    Field{"linear_scaling", &RopeOf::linear_scaling},
                    Field{"factor", &RopeOf::factor},
                    Field{"beta_fast", &RopeOf::beta_fast},
                    Field{"beta_slow", &RopeOf::beta_slow},
                    Field{"low_freq_factor", &RopeOf::low_freq_factor},
                    Field{"high_freq_factor", &RopeOf::high_freq_factor},
                    Field{"original_max_positions", &RopeOf::original_max_positions},
                    Field{"truncate", &RopeOf::truncate},
                    Field{"attention_scaling", &RopeOf::attention_scaling},
                    Field{"attention_factor", &RopeOf::attention_factor},
                    Field{"inverse", &RopeOf::inverse},
                    Field{"wide", &RopeOf::is_wide}};
}
constexpr auto fields_of(const TemperOf*) {
  return std::tuple{Field{"scale", &TemperOf::scale}, Field{"floor", &TemperOf::floor}};
}
constexpr auto fields_of(const AttentionOf*) {
  return std::tuple{Field{"window", &AttentionOf::window},
                    Field{"chunk", &AttentionOf::chunk},
                    Field{"score_scale", &AttentionOf::score_scale},
                    Field{"soft_cap", &AttentionOf::soft_cap},
                    Field{"float32_softmax", &AttentionOf::float32_softmax},
                    Field{"balanced_over", &AttentionOf::balanced_over},
                    Field{"keys_by_place", &AttentionOf::keys_by_place},
                    Field{"sparse", &AttentionOf::is_sparse},
                    Field{"pools", &AttentionOf::pools},
                    Field{"tokens_of_pool", &AttentionOf::tokens_of_pool}};
}
constexpr auto fields_of(const IndexScoresOf*) {
  return std::tuple{Field{"keys_by_place", &IndexScoresOf::keys_by_place}, Field{"tokens_of_key", &IndexScoresOf::tokens_of_key}};
}
constexpr auto fields_of(const ChooseKeysOf*) {
  return std::tuple{Field{"keys", &ChooseKeysOf::keys},
                    Field{"breaks_ties", &ChooseKeysOf::breaks_ties},
                    Field{"keys_by_place", &ChooseKeysOf::keys_by_place},
                    Field{"tokens_of_key", &ChooseKeysOf::tokens_of_key}};
}
constexpr auto fields_of(const ChosenRowsOf*) { return std::tuple{Field{"first", &ChosenRowsOf::first}}; }
constexpr auto fields_of(const DoublyStochasticOf*) { return std::tuple{Field{"iterations", &DoublyStochasticOf::iterations}}; }
constexpr auto fields_of(const WindowsOf*) { return std::tuple{Field{"tokens", &WindowsOf::tokens}}; }
constexpr auto fields_of(const NewWindowsOf*) {
  return std::tuple{Field{"tokens", &NewWindowsOf::tokens}, Field{"count", &NewWindowsOf::count}};
}
constexpr auto fields_of(const WindowRowsOf*) { return std::tuple{Field{"before", &WindowRowsOf::before}}; }
constexpr auto fields_of(const CrossEntropyOf*) { return std::tuple{Field{"z_loss", &CrossEntropyOf::z_loss}}; }
constexpr auto fields_of(const VocabLossOf*) {
  return std::tuple{Field{"z_loss", &VocabLossOf::z_loss},
                    Field{"by_token", &VocabLossOf::by_token},
                    Field{"scale", &VocabLossOf::scale},
                    Field{"soft_cap", &VocabLossOf::soft_cap}};
}
constexpr auto fields_of(const TopKOf*) {
  return std::tuple{Field{"k", &TopKOf::k},
                    Field{"weights", &TopKOf::weights},
                    Field{"normalize", &TopKOf::normalize},
                    Field{"normalize_epsilon", &TopKOf::normalize_epsilon},
                    Field{"scale", &TopKOf::scale},
                    Field{"groups", &TopKOf::groups},
                    Field{"chosen_groups", &TopKOf::chosen_groups},
                    Field{"group_score_terms", &TopKOf::group_score_terms}};
}
constexpr auto fields_of(const DrawOf*) {
  return std::tuple{Field{"experts", &DrawOf::experts}, Field{"skew", &DrawOf::skew}};
}
constexpr auto fields_of(const SpreadOf*) { return std::tuple{Field{"experts", &SpreadOf::experts}}; }
constexpr auto fields_of(const CacheWriteOf*) {
  return std::tuple{Field{"wraps", &CacheWriteOf::wraps}, Field{"skips", &CacheWriteOf::skips}, Field{"pools", &CacheWriteOf::pools}};
}
constexpr auto fields_of(const SlotMaskOf*) {
  return std::tuple{Field{"experts", &SlotMaskOf::experts}, Field{"capacity", &SlotMaskOf::capacity}};
}
constexpr auto fields_of(const ConstraintOf*) {
  return std::tuple{Field{"labels", &ConstraintOf::labels},
                    Field{"each_dim_alone", &ConstraintOf::each_dim_alone},
                    Field{"peeled", &ConstraintOf::peeled},
                    Field{"peeled_dims", &ConstraintOf::peeled_dims},
                    Field{"stage_as_data", &ConstraintOf::stage_as_data},
                    Field{"over_data", &ConstraintOf::over_data},
                    Field{"unreduced", &ConstraintOf::unreduced},
                    Field{"unlisted", &ConstraintOf::unlisted}};
}
constexpr auto fields_of(const StageStateOf*) { return std::tuple{Field{"stages", &StageStateOf::stages}}; }
// Bodies are printed below their node.
constexpr auto fields_of(const RepeatOf*) {
  return std::tuple{Field{"sizes", &RepeatOf::sizes},     Field{"labels", &RepeatOf::labels},
                    Field{"carried", &RepeatOf::carried}, Field{"shared", &RepeatOf::shared},
                    Field{"slices", &RepeatOf::slices},   Field{"stacks", &RepeatOf::stacks},
                    Field{"reverse", &RepeatOf::reverse}, Field{"saved", &RepeatOf::saved}};
}
constexpr auto fields_of(const RegionOf*) {
  return std::tuple{Field{"strategy", &RegionOf::strategy}, Field{"mesh", &RegionOf::written_for},
                    Field{"operands", &RegionOf::operands}, Field{"results", &RegionOf::results}, Field{"saved", &RegionOf::saved},
                    Field{"overlaps", &RegionOf::overlaps}};
}
constexpr auto fields_of(const GroupedMatmulOf*) {
  return std::tuple{Field{"transpose", &GroupedMatmulOf::transpose}, Field{"rounded", &GroupedMatmulOf::rounded}};
}
constexpr auto fields_of(const GroupedOuterOf*) { return std::tuple{Field{"rounded", &GroupedOuterOf::rounded}}; }
constexpr auto fields_of(const ReshardOf*) {
  return std::tuple{Field{"kind", &ReshardOf::kind}, Field{"axes", &ReshardOf::axes}, Field{"from", &ReshardOf::from},
                    Field{"to", &ReshardOf::to}};
}
constexpr auto fields_of(const GroupOf*) {
  return std::tuple{Field{"axes", &GroupOf::axes}, Field{"members", &GroupOf::members},
                    Field{"choices", &GroupOf::choices}, Field{"back", &GroupOf::back},
                    Field{"experts", &GroupOf::experts}, Field{"experts_here", &GroupOf::experts_here}};
}
constexpr auto fields_of(const SortSlotsOf*) { return std::tuple{Field{"limit", &SortSlotsOf::limit}}; }

// Printed names of enumerators, in order, the last of which is `last`.
template <auto last, typename... Words>
constexpr auto words_up_to(Words... words) {
  static_assert(sizeof...(words) == static_cast<std::size_t>(last) + 1);
  return std::array<std::string_view, sizeof...(words)>{words...};
}
constexpr auto words_of(const Phase*) { return words_up_to<Phase::update>("forward", "backward", "update"); }
constexpr auto words_of(const ChainStep::Kind*) { return words_up_to<ChainStep::Kind::cast>("unary", "unary_grad", "binary", "cast"); }
constexpr auto words_of(const Rounded*) { return words_up_to<Rounded::float8>("none", "int8", "float8"); }
constexpr auto words_of(const Role*) {
  return words_up_to<Role::prediction_kernel>(
      "none", "embedding", "position_embedding", "output_projection", "norm_scale", "norm_bias", "attention_norm_scale",
      "attention_kernel", "attention_fused_kernel", "attention_down_kernel", "attention_out_kernel", "attention_flat_out_kernel",
      "attention_group_kernel", "attention_bias", "attention_sinks", "index_kernel", "index_down_kernel", "index_norm", "pool_bias",
      "delta_kernel", "delta_conv", "delta_gate",
      "delta_norm_scale", "mlp_kernel", "mlp_bias", "shared_expert_kernel", "shared_expert_gate",
      "router_kernel", "router_bias", "expert_table", "expert_kernel", "expert_bias", "stream_kernel", "stream_gate",
      "prediction_kernel");
}
constexpr auto words_of(const InputOf::Kind*) { return words_up_to<InputOf::Kind::number>("value", "batch", "state", "moment", "number"); }
constexpr auto words_of(const Initializer::Kind*) {
  return words_up_to<Initializer::Kind::turns>("zeros", "ones", "normal", "log_uniform", "fan_in", "turns");
}
constexpr auto words_of(const ParameterOf::Labelled*) {
  return words_up_to<ParameterOf::Labelled::never>("each_dim", "in_a_stack", "never");
}
constexpr auto words_of(const Unary*) {
  return words_up_to<Unary::finite>("silu", "sigmoid", "gelu", "relu", "tanh", "exp", "softplus", "identity", "scale", "offset", "clamp",
                                    "sqrt", "rsqrt", "minimum", "finite");
}
constexpr auto words_of(const Binary*) { return words_up_to<Binary::divide>("add", "subtract", "multiply", "divide"); }
constexpr auto words_of(const Reduction*) { return words_up_to<Reduction::sum>("sum"); }
constexpr auto words_of(const RopeOf::Kind*) { return words_up_to<RopeOf::Kind::yarn>("standard", "llama3", "yarn"); }
constexpr auto words_of(const TopKOf::Weights*) { return words_up_to<TopKOf::Weights::chosen>("softmax_of_chosen", "chosen"); }
constexpr auto words_of(const sharding::Dispatch*) { return words_up_to<sharding::Dispatch::all_to_all>("local", "ring", "all-to-all"); }
constexpr auto words_of(const ReshardOf::Kind*) {
  return words_up_to<ReshardOf::Kind::permute>("slice", "all-gather", "all-to-all", "reduce-scatter", "all-reduce", "permute");
}

}  // namespace moesh::graph
