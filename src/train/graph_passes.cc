#include "train/graph_passes.h"

namespace moesh::train {
namespace {

constexpr GraphPass kPasses[] = {
    {pass_names::model, "There are only the settings.",
     "The loss of a microbatch, written once for every mesh: values have global shapes, layers stand in repeats (one that is not scanned "
     "in a repeat without sizes, which runs once), experts that are reached by rows in regions, and layouts are asked for by constraints."},
    {pass_names::slots, "A layer with a fixed capacity multiplies tokens with one-hot masks of its slots.",
     "It copies rows to slots and back: no slot_mask is left."},
    {pass_names::remat, "Repeats give what the model needs of them.",
     "They also give what remat_policy saves for the backward pass; what is not saved will be computed again."},
    {pass_names::autodiff, "There is a forward pass.",
     "There is a gradient for each parameter too, as a result: one microbatch, forward and backward, and nothing that neither "
     "needs."},
    {pass_names::step, "There is one microbatch, with its gradients.",
     "The whole step: all microbatches, the metrics, and the update, which hands back parameters and moments as results of their "
     "names."},
    {pass_names::expand, "An op is one node, however its operands are laid out.",
     "Norms and losses over a dim that is sharded are written as their parts, attention takes the positions of queries and of keys apart, "
     "and each node of a region is a collective or the work of one device."},
    {pass_names::partition, "Layouts are asked for here and there, by constraints.",
     "Every value says how it lies, every op's operands lie as it needs them, and what moves them is a reshard; no constraint is "
     "left, and a loop hands on each value once.",
     true},
    {pass_names::stack, "Stacks of layers' values have their dims in the order that the model gives them.",
     "The layers come first in memory, so that a layer's slice is dense, wherever only repeats and updates use a stack. Layers that run "
     "once stand among all else.",
     true},
    {pass_names::fuse, "The logits of all tokens are a value.",
     "Their product, their loss and its gradients are one op, which holds those of some tokens at a time, unless something else reads "
     "them; where devices have pieces of the vocabulary, they are made twice if num_vocab_tiling is above 1, and held if it is 1. A "
     "product of bfloat16 that is only cast to float32 is made in it, a gradient in bfloat16 reaches its update without a cast, updates "
     "give the norm of what they make, an embedding's gradient goes into the table that it would be added to, a layer's gradients are "
     "added to those of earlier microbatches in the loop that makes them, cotangents of experts' rows are fetched as they are weighted, "
     "and a product in float32 or a norm's gradient is added to a value that stood before it as it is made.",
     true},
    {pass_names::remat_gradients, "Gradients are held until the update has their norm.",
     "On one device with few tokens, gradients of layers' weights are made again for the update from the layers' inputs and cotangents, "
     "unless remat_gradients is false.",
     true},
    {pass_names::single_loops, "A loop over a single layer is a loop.",
     "Its nodes stand among all others, and what it gathers in the forward pass is kept for the backward pass.",
     true},
    {pass_names::chain, "Each elementwise op is a pass over memory.",
     "Elementwise ops that follow each other, with no other reader in between, are one op that goes through all elements block by block; "
     "so are elementwise ops that read the same values.",
     true},
    {pass_names::overlap, "In a region, chunks of the tokens stand one after another.",
     "What the next chunk's product waits for is sent before a product of this one, unless moe_chunk_barrier is true.",
     true},
};

}  // namespace

std::span<const GraphPass> graph_passes() { return kPasses; }

}  // namespace moesh::train
