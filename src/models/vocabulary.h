// Both ends of a model at its vocabulary: the embedding of tokens, and the logits.
#pragma once

#include "nn/context.h"
#include "nn/norm.h"

namespace moesh::models {

using graph::Builder;
using graph::Tensor;
using nn::Context;

// The rows of a table [N, M] with these ids, [B, S, M] in the compute type.
Tensor look_up(Builder& builder, const Context& context, Tensor table_NM, Tensor ids_BS);

// The likeliest word of each position, [B, S].
Tensor guesses(Builder& builder, Tensor logits_BSV);

// The same parameters serve all tokens and all hidden states of a model.
class Vocabulary {
 public:
  // Adds the embedding table.
  Vocabulary(Builder& builder, const Context& context);

  // [B, S, M]
  Tensor embed(Tensor tokens_BS) const;
  // Adds the parameters that make logits of hidden states: the last norm, and the projection unless the embedding is tied. Comes after the
  // layers, as the order of a model's parameters is that of its nodes.
  void add_head();
  // [B, S, V], of hidden states [B, S, M].
  Tensor logits(Tensor x_BSM);

 private:
  Tensor weight_read();
  Tensor project(Tensor x_BSM);

  Builder& builder_;
  const Context& context_;
  Tensor table_VM_;
  nn::NormParameters norm_;
  Tensor weight_;  // [V, M] if the embedding is tied, otherwise [M, V]
  Tensor weight_read_;  // in the type of the product; absent before the first one
};

}  // namespace moesh::models
