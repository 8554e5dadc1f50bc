// Both ends of a model: its inputs and the embedding of tokens, and the logits.
#pragma once

#include "nn/context.h"

namespace moesh::models {

using graph::Builder;
using graph::Tensor;
using nn::Context;

// An array of the batch, [B, S].
Tensor batch_input(Builder& builder, const Context& context, const std::string& name);

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
  // [B, S, V], of hidden states [B, S, M]. The first call adds the last norm and, unless the embedding is tied, the projection, in its own
  // scope; later calls read the same parameters.
  Tensor logits(Tensor x_BSM);

 private:
  Tensor norm(Tensor x_BSM);
  Tensor project(Tensor x_BSM);

  Builder& builder_;
  const Context& context_;
  Tensor table_VM_;
  // Absent before the first logits. The weight is [V, M] if the embedding is tied, otherwise [M, V], in the type of the product.
  Tensor norm_scale_, weight_;
};

}  // namespace moesh::models
