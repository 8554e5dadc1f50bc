// The names of layers that are stacked in one tensor, and of the same layers one by one: "decoder/layers/mlp/wi_0/kernel" with its
// layers in dim 1 holds "decoder/layers_0/mlp/wi_0/kernel", "decoder/layers_1/mlp/wi_0/kernel" and so on. For Gemma 4's cycles,
// "decoder/scanned_blocks" holds all layers of a cycle but the last in an inner stack, "local_layers", whose dim comes after that
// of the cycles, and the last one as "global_layer"; the layers after the last whole cycle are a stack too. For DeepSeek 4's cycles it
// holds the layers of a cycle by their turn, "layers_0" and "layers_1", and follows layers that stand alone in the stacked model too.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "store/parts.h"

namespace moesh::store {

// A layer's tensor, which may be a slice of a stack.
struct Layer {
  std::string tensor;
  int dim = -1;             // dim of the stack; -1 if the layer is not stacked
  std::int64_t index = 0;
  std::int64_t within = -1;  // index in an inner stack; -1 if there is none
  std::int64_t number = 0;   // among all layers of the tensor, those of inner stacks too
};

class LayerNames {
 public:
  struct Stack {
    int dim = -1;  // -1: not a stack
    std::int64_t layers = 1;
    std::int64_t within = 0;  // layers in an inner stack; 0: there is none

    std::int64_t all_layers() const { return layers * (within > 0 ? within : 1); }
  };
  explicit LayerNames(std::map<std::string, Stack> tensors);

  // The names of a tensor's layers one by one, in the order of the stack; the tensor's own name if it is not a stack.
  std::vector<std::string> alone(const std::string& tensor) const;
  const Layer* find(const std::string& alone) const;  // null if there is none
  const std::map<std::string, Layer>& all() const { return layers_; }  // by the name of the single layer

 private:
  std::int64_t layers_in_cycles(const std::string& group) const;
  std::string name_of(const std::string& group, std::int64_t number, const std::string& rest) const;
  std::optional<std::string> name_of_rest(const std::string& group, std::int64_t turn, const std::string& rest) const;

  std::map<std::string, Stack> tensors_;
  std::map<std::string, std::int64_t> layers_in_cycle_;  // by group such as "decoder/layers"
  std::map<std::string, std::int64_t> cycles_;           // number of cycles, by group
  std::int64_t alone_before_ = 0;                        // layers that stand alone, before the cycles if there are any
  std::map<std::string, Layer> layers_;
};

// Whether a tensor's name says that each slice of its stack is a stack as well.
bool has_stack_within(const std::string& tensor);

// The parts of one layer, from the parts of a tensor that may be a stack; and the reverse, parts of a layer as parts of that tensor.
std::vector<Part> of_layer(const std::vector<Part>& parts, const Layer& layer);
std::vector<Part> as_layer(const std::vector<Part>& parts, const Layer& layer);

// The parts at one index of a dim, without that dim; parts that do not contain the index are left out.
std::vector<Part> at_index(const std::vector<Part>& parts, int dim, std::int64_t index);
// The same parts, seen as one index of an additional dim.
std::vector<Part> as_index(const std::vector<Part>& parts, int dim, std::int64_t index);

}  // namespace moesh::store
