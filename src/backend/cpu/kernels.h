// The CPU kernels, one per op; table.cc maps ops to kernels.
#pragma once

#include "backend/kernel.h"

namespace moesh::backend::cpu {

// Null for ops that have no kernel.
Kernel find_kernel(graph::Op op);

// elementwise.cc
void unary(const KernelCall& call);
void unary_grad(const KernelCall& call);
void binary(const KernelCall& call);
void cast(const KernelCall& call);
void chain(const KernelCall& call);
void fill(const KernelCall& call);

// shape.cc
void broadcast(const KernelCall& call);
void reduce(const KernelCall& call);
void transpose(const KernelCall& call);
void slice(const KernelCall& call);
void concat(const KernelCall& call);
void pad(const KernelCall& call);
void cache_write(const KernelCall& call);

// einsum.cc
void einsum(const KernelCall& call);

// norm.cc
void softmax(const KernelCall& call);
void softmax_grad(const KernelCall& call);
void rms_norm(const KernelCall& call);
void rms_norm_grad(const KernelCall& call);
void row_dot(const KernelCall& call);
void rms_norm_of_dots(const KernelCall& call);
void rms_norm_grad_of_dots(const KernelCall& call);

// rope.cc
void rope(const KernelCall& call);
void temper(const KernelCall& call);

// attention.cc
void attention(const KernelCall& call);
void highest(const KernelCall& call);

// indexing.cc
void index_scores(const KernelCall& call);
void index_scores_grad(const KernelCall& call);
void choose_keys(const KernelCall& call);
void chosen_rows(const KernelCall& call);
void attention_shares(const KernelCall& call);
void index_loss(const KernelCall& call);
void index_loss_grad(const KernelCall& call);

// causal_conv.cc
void causal_conv(const KernelCall& call);
void causal_conv_grad(const KernelCall& call);

// delta_rule.cc
void delta_rule(const KernelCall& call);
void delta_rule_grad(const KernelCall& call);
// pooling.cc
void windows(const KernelCall& call);
void new_windows(const KernelCall& call);
void window_rows(const KernelCall& call);
void pool(const KernelCall& call);
void pool_grad(const KernelCall& call);

// streams.cc
void doubly_stochastic(const KernelCall& call);
void doubly_stochastic_grad(const KernelCall& call);

// attention_grad.cc
void attention_grad(const KernelCall& call);

// vocabulary.cc
void embed(const KernelCall& call);
void embed_grad(const KernelCall& call);
void embed_add(const KernelCall& call);
void positions(const KernelCall& call);
void cross_entropy(const KernelCall& call);
void cross_entropy_grad(const KernelCall& call);
void vocab_scores(const KernelCall& call);
void cross_entropy_of_scores(const KernelCall& call);

// vocab_loss.cc
void vocab_loss(const KernelCall& call);
void vocab_logs(const KernelCall& call);
void vocab_loss_grad(const KernelCall& call);

// routing.cc
void random_scores(const KernelCall& call);
void top_k(const KernelCall& call);
void give_experts(const KernelCall& call);
void weigh(const KernelCall& call);
void top_k_grad(const KernelCall& call);
void spread(const KernelCall& call);
void spread_grad(const KernelCall& call);
void expert_load(const KernelCall& call);

// slots.cc
void slots(const KernelCall& call);
void fill_slots(const KernelCall& call);
void empty_slots(const KernelCall& call);
void slot_products(const KernelCall& call);

// rows.cc
void sort_slots(const KernelCall& call);
void fetch_rows(const KernelCall& call);
void return_rows(const KernelCall& call);
void list_tokens(const KernelCall& call);
void sum_rows(const KernelCall& call);
void device_index(const KernelCall& call);
void own_once(const KernelCall& call);
void plan_exchange(const KernelCall& call);
void weighted_rows_grad(const KernelCall& call);
void fetched_rows_grad(const KernelCall& call);

// grouped.cc
void grouped_matmul(const KernelCall& call);
void grouped_outer(const KernelCall& call);
void grouped_bias(const KernelCall& call);
void grouped_sum(const KernelCall& call);

// learning.cc
void sum_squares(const KernelCall& call);
void adam_update(const KernelCall& call);
void momentum_update(const KernelCall& call);
void sgd_update(const KernelCall& call);
void balance_update(const KernelCall& call);
void clip_update(const KernelCall& call);

}  // namespace moesh::backend::cpu
