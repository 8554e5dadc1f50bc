// Layers that are stacked in one tensor, and the same layers one by one: "decoder/layers/mlp/wi_0/kernel" with its layers in dim 1 holds
// "decoder/layers_0/mlp/wi_0/kernel", "decoder/layers_1/mlp/wi_0/kernel" and so on. Of Gemma 4's cycles "decoder/scanned_blocks" holds
// the layers but the last in a stack within, "local_layers", whose dim stands behind that of the cycles, and the last as "global_layer";
// what is left of a cycle is a stack too.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "store/parts.h"

namespace moesh::store {

// A layer's tensor within one that may be a stack.
struct Layer {
  std::string tensor;
  int dim = -1;             // of the stack; none where the layer stands alone
  std::int64_t index = 0;
  std::int64_t within = -1;  // of a stack within that one; none where there is none
};

class LayerNames {
 public:
  struct Stack {
    int dim = -1;  // none: no stack
    std::int64_t layers = 1;
    std::int64_t within = 0;  // layers of a stack within; 0: there is none
  };
  explicit LayerNames(std::map<std::string, Stack> tensors);

  // What a tensor's layers are called where each stands alone, in the stack's order; its own name where it is no stack.
  std::vector<std::string> alone(const std::string& tensor) const;
  const Layer* find(const std::string& alone) const;  // null where there is none
  const std::map<std::string, Layer>& all() const { return layers_; }  // by what they are called alone

 private:
  std::int64_t layers_in_cycles(const std::string& group) const;
  std::optional<std::string> name_of_rest(const std::string& group, std::int64_t turn, const std::string& rest) const;

  std::map<std::string, Stack> tensors_;
  std::map<std::string, std::int64_t> cycles_;     // of "decoder/layers": how many kinds of layers take turns in it
  std::map<std::string, std::int64_t> cycles_in_;  // and how often
  std::map<std::string, Layer> layers_;
};

// Whether a tensor's name says that each layer of its stack is a stack.
bool has_stack_within(const std::string& tensor);

// A layer of the parts of a tensor that may be a stack, and the same parts as that layer of it.
std::vector<Part> of_layer(const std::vector<Part>& parts, const Layer& layer);
std::vector<Part> as_layer(const std::vector<Part>& parts, const Layer& layer);

// One index of a dim of parts, without that dim; parts that do not have it are left out.
std::vector<Part> at_index(const std::vector<Part>& parts, int dim, std::int64_t index);
// The same parts, seen as one index of a further dim.
std::vector<Part> as_index(const std::vector<Part>& parts, int dim, std::int64_t index);

}  // namespace moesh::store
