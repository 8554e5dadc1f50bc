// The ops of graphs: what each takes and gives.
#pragma once

#include <cstdint>

namespace moesh::graph {

enum class Op : std::uint8_t {
  input,           // a value from outside: the batch, or what a body is given
  parameter,       // a trained weight
  einsum,          // two operands [, addend]; letters name dims
  unary,           // elementwise, see Unary
  binary,          // elementwise on equal shapes, see Binary
  cast,
  broadcast,       // dims of the operand placed among those of the result
  reduce,          // over dims, see Reduction
  reshape,
  transpose,
  slice,           // a range of one dim
  concat,          // along one dim
  pad,             // zeros before and after in one dim
  fill,            // a constant in every element
  softmax,         // over the last dim
  rms_norm,        // x, scale: over the last dim
  rope,            // x, positions: rotates the last dim
  temper,          // positions[B, S]: the factors by which queries grow with what they see, float32; see TemperOf
  attention,       // query, key, value, order, segments [, order and segments of the keys, if those are other tokens] [, what choose_keys
                   // gives] [, sinks]: the values read [, the highest score of each query and head [B, S, H], float32]
  highest,         // x[A, B, C] in pieces of A and B: the highest number of each piece for each C, [pieces of A, pieces of B, C]
  detach,          // the operand; no gradient flows back through it
  index_scores,    // query[B, S, H, D], key[B, T, D], weights[B, S, H], order[B, S]: weighted sums of relu(query key), [B, S, T], wide
  choose_keys,     // scores[B, S, T], order, segments, those of the keys: which keys a query is to see; see ChooseKeysOf, chosen_keys.h
  chosen_rows,     // keys chosen for one query, rows[B, T, ...], ...: those of these keys, [B, K, ...], ..., and then 0, or -1 for int32;
                   // see ChosenRowsOf
  attention_shares,  // query, key[B, T, H, D], chosen keys: each head's softmax over these, summed over heads, [B, S, T] in the wide type
  index_loss,      // scores, attention_shares, chosen keys: the KL divergence of the scores' softmax from the shares, [B, S]
  causal_conv,     // x[B, S, ...], weights[W, ...] [, kept, order, segments]: each channel's weighted sum of a token and of the
                   // W - 1 before it [, what to keep], see delta_rule.h
  delta_rule,      // query, key[B, S, G, D], value[B, S, G, R, V], decay, rate[B, S, G, R], segments [, state, order]: what is read of a
                   // memory that each token decays and corrects, like value [, the state after the tokens], see delta_rule.h
  doubly_stochastic,  // logits[..., K, K], or [..., K!]: matrices [..., K, K] whose rows and columns sum to 1, see doubly_stochastic.h
  windows,         // positions, segments[B, S]: those of windows of consecutive tokens, [B, N], and whether each goes on where the one
                   // before it ends, see pooling.h
  new_windows,     // positions, segments[B, S] of new tokens: their slots[B, S], but kNoSlot for padding; of the windows that they are in
                   // slots and first positions, [B, W], and 1 or 0 float32: whether a window stands before it; see NewWindowsOf
  window_rows,     // kept[B, R, ...], new[B, S, ...], positions[B, S]: those of windows [B, W, C, ...], see WindowRowsOf
  pool,            // values[B, N, C, ...], gates[B, N, C, ...]: means over C, weighted by a softmax of the gates over C, [B, N, ...]
  cache_write,     // cache[B, T, ...], rows[B, S, ...], slots[B, S] [, more rows, their slots]: the cache with the rows written to these of
                   // its T slots, see CacheWriteOf
  embed,           // table, tokens
  positions,       // segments[B, S]: the number of positions that count, which are those in a segment other than 0, float32
  cross_entropy,   // logits, targets, segments: loss summed over the positions that count[, the part of it that the z-loss makes]
  random_scores,   // key[2], token numbers[B, S]: scores [B, S, E] whose largest are experts drawn at random; see DrawOf
  top_k,           // scores to choose by [, scores to take the weights from]: weights and expert ids of each token
  give_experts,    // table[V, K] of whole numbers, tokens[B, S]: the experts that it gives each token, [B, S, K], int32
  weigh,           // scores, ids: the weights of experts that are chosen already, as those of top_k
  spread,          // weights, ids: the weights laid out over all experts
  slot_mask,       // ids [, weights]: which slot of which expert a token takes, [B, S, E, C]; see slots.h
  slots,           // ids[B, S, K]: the slot that each choice takes, expert * C + place, or -1 if it is dropped
  fill_slots,      // x[B, S, M], slots [, weights[B, S, K]]: each slot's token, weighted, [E, B, C, M]
  empty_slots,     // y[E, B, C, M], slots [, weights]: the contents of each token's slots, weighted and summed [B, S, M]
  slot_products,   // y[E, B, C, M], slots, z[B, S, M]: for each choice, the dot product of its slot's contents and z over M [B, S, K]
  expert_load,     // ids[B, S, K]: how many tokens of each row chose each expert [B, E], float32
  grouped_matmul,  // rows[R, K], weights[E, K, N], sizes [, addend]: each expert's rows times its weights
  grouped_bias,    // rows[R, N], bias[E, N], sizes: each expert's rows plus its bias
  constraint,      // the operand, laid out as its labels and the rules say
  stage_state,     // rows regrouped for the stages of a pipeline
  repeat,          // a body run once per layer
  region,          // a body on local shapes with its collectives spelled out
  reshard,         // the operand in another layout; only the partitioner adds it
  vocab_scores,    // logits[B, S, V], targets: the targets' logits [B, S], and each vocabulary shard's log-sum-exp [B, S, shards]
  vocab_logs,      // x, table, targets: vocab_scores of the logits that these make; the first shard of several on a device stands for all
  cross_entropy_of_scores,  // the results of vocab_scores, segments: the same as cross_entropy
  row_dot,                  // x, y [, scale]: their elementwise product summed over the last dim, in the wide type
  rms_norm_of_dots,         // x, scale, row_dot(x, x) of whole rows: as rms_norm, for rows that are sharded

  // Only in regions. A slot is one choice of a token, numbered token * K + choice; `sizes` gives the number of rows of each expert, and so
  // how many of the R places for rows are filled. GroupOf names the devices that take part. In a program that runs, fetch_rows and
  // return_rows are for one device only: partition/split_region.h splits the others.
  device_index,   // this device's index in the group
  gather,         // x[N, ...] of every device of the group, concatenated (an all-gather)
  all_sum,        // x, summed over the group (an all-reduce)
  own_once,       // x on the group's first device, zeros on the others
  sort_slots,     // ids[T, K] [, index]: the slots of the experts here, sorted by expert, order[R]; sizes[E]; how many were dropped, see
                  // SortSlotsOf. The experts here start at index * E; without an index all experts are here.
  fetch_rows,     // x[T, ...], order, sizes: the row of each slot's token, from whichever device of the group has it
  return_rows,    // rows[R, ...], order, sizes [, weights[R]]: weighted, and summed for each token on the device that has it
  plan_exchange,  // counts[devices, all E], index: of the rows that each device has for each expert, how many fit, in the same shape; sizes
                  // of the experts here; how many rows for these were dropped, see SortSlotsOf
  exchange_rows,  // rows sorted by expert, counts, kept, sizes: sends each expert's rows to its device, where they are sorted by expert,
                  // then by source device (an all-to-all). Or the way back, with zeros for dropped rows.
  list_tokens,    // order, sizes: the tokens that have rows here, ascending, tokens[P]; where each token's rows end, ends[P], in a list of
                  // all rows sorted by token, rows[R]; how many of the P places for tokens are filled
  sum_rows,       // rows[R, ...], and list_tokens' rows[R], ends[P] and number [, weights[R]]: each token's rows, weighted and summed in
                  // the order of the list, [P, ...]
  scatter_rows,   // sums[P, ...], and list_tokens' tokens[P] and number: sends each token's sums to the device that has the token, which
                  // adds them in the order of devices (a reduce-scatter); zeros for a token without any, [T, ...]

  // Gradients that are ops of their own. The cotangent usually follows the operands of the forward op.
  unary_grad,          // x, dy: dx
  softmax_grad,        // y, dy: dx
  rms_norm_grad,       // x, scale, dy [, addend to dx]: dx, dscale
  rms_norm_grad_of_dots,  // x, scale, dy, row_dot(x, x), row_dot(x, dy, scale) [, addend to dx]: as rms_norm_grad
  attention_grad,      // the operands of attention, dy: dquery, dkey, dvalue [, dsinks]
  index_scores_grad,   // query, key, weights, order, dscores: dquery, dkey, dweights
  causal_conv_grad,    // x, weights, dy: dx, dweights
  delta_rule_grad,     // query, key, value, decay, rate, segments, dy: dquery, dkey, dvalue, ddecay, drate
  doubly_stochastic_grad,  // logits, dy: dlogits
  pool_grad,           // values, gates, dy: dvalues, dgates
  index_loss_grad,     // scores, attention_shares, chosen keys, dy: dscores
  embed_grad,          // tokens, dy: dtable
  embed_add,           // table, tokens, dy: the table plus dtable
  cross_entropy_grad,  // logits, targets, segments, dsum [, log-sum-exps of vocab_scores]: dlogits
  vocab_loss,          // x[B, S, M], table, targets, segments[, dsum]: cross_entropy of the product of x and the table[, dx, dtable][, the
                       // z-loss in it]. The table and dtable have x's type, or the wide type; such a table is rounded to x's.
  vocab_loss_grad,     // x, table, targets, segments, dsum, log-sum-exps of vocab_logs: dx, dtable
  top_k_grad,          // the scores that the weights were taken from, ids, dweights: dscores
  spread_grad,         // ids, dspread: dweights
  grouped_outer,       // rows[R, K], drows[R, N], sizes: dweights[E, K, N]
  grouped_sum,         // drows[R, N], sizes: dbias[E, N]
  weighted_rows_grad,  // rows[R, M], weights[R], each row's dy[R, M]: drows, dweights
  fetched_rows_grad,   // the same with dy[T, M], order, sizes, of which it fetches each row's; only partition/fuse_fetch.h adds it

  chain,  // elementwise ops on values of one shape, applied to all of them block by block; only partition/chain.h adds it

  // Learning. `numbers` are those of UpdateNumber. If they say that the update is not applied, each result that is a new value equals the
  // operand that it replaces, bit for bit.
  sum_squares,      // x: a scalar, float32
  adam_update,      // parameter, gradient, mu, nu, numbers: the new parameter, mu and nu [, the sum of the new parameter's squares]
  sgd_update,       // parameter, direction, numbers: the new parameter
  momentum_update,  // gradient, mu, numbers: the new mu, and the direction in which a parameter moves
  balance_update,   // a router's bias, load[microbatches, layers, E + 1], numbers: the new bias
  clip_update,      // a weight that makes heads, the highest score of each, numbers: the new weight; see ClipOf

  count_of_ops,  // not an op
};

// `identity` adds no node. `scale` multiplies by a, `offset` adds a, `clamp` clamps to [a, b]; `sqrt`, `rsqrt` and `minimum` (with a) serve
// norms; `finite` is 1, or 0 for infinities and NaN.
enum class Unary : std::uint8_t {
  silu,
  sigmoid,
  gelu,
  relu,
  tanh,
  exp,
  softplus,
  identity,
  scale,
  offset,
  clamp,
  sqrt,
  rsqrt,
  minimum,
  finite
};
enum class Binary : std::uint8_t { add, subtract, multiply, divide };
enum class Reduction : std::uint8_t { sum };

}  // namespace moesh::graph
