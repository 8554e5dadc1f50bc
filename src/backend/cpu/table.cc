// The table that maps ops to kernels.
#include "backend/cpu/kernels.h"

namespace moesh::backend::cpu {

Kernel find_kernel(graph::Op op) {
  using graph::Op;
  switch (op) {
    case Op::einsum: return cpu::einsum;
    case Op::unary: return cpu::unary;
    case Op::binary: return cpu::binary;
    case Op::cast: return cpu::cast;
    case Op::chain: return cpu::chain;
    case Op::broadcast: return cpu::broadcast;
    case Op::reduce: return cpu::reduce;
    case Op::transpose: return cpu::transpose;
    case Op::slice: return cpu::slice;
    case Op::concat: return cpu::concat;
    case Op::pad: return cpu::pad;
    case Op::fill: return cpu::fill;
    case Op::softmax: return cpu::softmax;
    case Op::rms_norm: return cpu::rms_norm;
    case Op::row_dot: return cpu::row_dot;
    case Op::rms_norm_of_dots: return cpu::rms_norm_of_dots;
    case Op::rope: return cpu::rope;
    case Op::temper: return cpu::temper;
    case Op::attention: return cpu::attention;
    case Op::cache_write: return cpu::cache_write;
    case Op::embed: return cpu::embed;
    case Op::positions: return cpu::positions;
    case Op::cross_entropy: return cpu::cross_entropy;
    case Op::vocab_scores: return cpu::vocab_scores;
    case Op::cross_entropy_of_scores: return cpu::cross_entropy_of_scores;
    case Op::random_scores: return cpu::random_scores;
    case Op::top_k: return cpu::top_k;
    case Op::give_experts: return cpu::give_experts;
    case Op::weigh: return cpu::weigh;
    case Op::spread: return cpu::spread;
    case Op::fill_slots: return cpu::fill_slots;
    case Op::empty_slots: return cpu::empty_slots;
    case Op::slot_products: return cpu::slot_products;
    case Op::grouped_matmul: return cpu::grouped_matmul;
    case Op::grouped_bias: return cpu::grouped_bias;
    case Op::unary_grad: return cpu::unary_grad;
    case Op::softmax_grad: return cpu::softmax_grad;
    case Op::rms_norm_grad: return cpu::rms_norm_grad;
    case Op::rms_norm_grad_of_dots: return cpu::rms_norm_grad_of_dots;
    case Op::attention_grad: return cpu::attention_grad;
    case Op::highest: return cpu::highest;
    case Op::causal_conv: return cpu::causal_conv;
    case Op::causal_conv_grad: return cpu::causal_conv_grad;
    case Op::delta_rule: return cpu::delta_rule;
    case Op::delta_rule_grad: return cpu::delta_rule_grad;
    case Op::doubly_stochastic: return cpu::doubly_stochastic;
    case Op::doubly_stochastic_grad: return cpu::doubly_stochastic_grad;
    case Op::windows: return cpu::windows;
    case Op::new_windows: return cpu::new_windows;
    case Op::window_rows: return cpu::window_rows;
    case Op::pool: return cpu::pool;
    case Op::pool_grad: return cpu::pool_grad;
    case Op::index_scores: return cpu::index_scores;
    case Op::index_scores_grad: return cpu::index_scores_grad;
    case Op::choose_keys: return cpu::choose_keys;
    case Op::chosen_rows: return cpu::chosen_rows;
    case Op::attention_shares: return cpu::attention_shares;
    case Op::index_loss: return cpu::index_loss;
    case Op::index_loss_grad: return cpu::index_loss_grad;
    case Op::embed_grad: return cpu::embed_grad;
    case Op::embed_add: return cpu::embed_add;
    case Op::cross_entropy_grad: return cpu::cross_entropy_grad;
    case Op::vocab_loss: return cpu::vocab_loss;
    case Op::vocab_logs: return cpu::vocab_logs;
    case Op::vocab_loss_grad: return cpu::vocab_loss_grad;
    case Op::top_k_grad: return cpu::top_k_grad;
    case Op::spread_grad: return cpu::spread_grad;
    case Op::grouped_outer: return cpu::grouped_outer;
    case Op::grouped_sum: return cpu::grouped_sum;
    case Op::sum_squares: return cpu::sum_squares;
    case Op::adam_update: return cpu::adam_update;
    case Op::sgd_update: return cpu::sgd_update;
    case Op::momentum_update: return cpu::momentum_update;
    case Op::sort_slots: return cpu::sort_slots;
    case Op::fetch_rows: return cpu::fetch_rows;
    case Op::return_rows: return cpu::return_rows;
    case Op::list_tokens: return cpu::list_tokens;
    case Op::sum_rows: return cpu::sum_rows;
    case Op::weighted_rows_grad: return cpu::weighted_rows_grad;
    case Op::fetched_rows_grad: return cpu::fetched_rows_grad;
    case Op::slots: return cpu::slots;
    case Op::expert_load: return cpu::expert_load;
    case Op::balance_update: return cpu::balance_update;
    case Op::clip_update: return cpu::clip_update;
    case Op::device_index: return cpu::device_index;
    case Op::own_once: return cpu::own_once;
    case Op::plan_exchange: return cpu::plan_exchange;
    // Collectives, which the transport carries out.
    case Op::gather:
    case Op::scatter_rows:
    case Op::exchange_rows:
    case Op::all_sum:
    case Op::reshard: return nullptr;
    // Ops that are placed, laid out or rewritten as other ops, or that the program itself carries out.
    case Op::input:
    case Op::parameter:
    case Op::constraint:
    case Op::detach:
    case Op::reshape:
    case Op::slot_mask:
    case Op::stage_state:
    case Op::repeat:
    case Op::region:
    case Op::count_of_ops: return nullptr;
  }
  return nullptr;
}

}  // namespace moesh::backend::cpu
