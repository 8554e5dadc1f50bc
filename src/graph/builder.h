// Builds graphs: a tensor is a value of a graph under construction, and each function here checks its shapes and adds a node.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "graph/graph.h"

namespace moesh::graph {

class Builder;
struct Stack;

struct Tensor {
  Builder* builder = nullptr;
  ValueId id = -1;

  explicit operator bool() const { return builder != nullptr; }
  Shape shape() const;  // a copy: adding nodes moves the values
  DType dtype() const;
  int rank() const { return static_cast<int>(shape().size()); }
  std::int64_t size(int dim) const { return shape()[static_cast<std::size_t>(dim)]; }
};

class Builder {
 public:
  Builder() = default;
  explicit Builder(Builder& outer);  // builds a body of the outer graph
  // Builds a region's body: each added value records the axes along which it differs between devices (Spec::own).
  static Builder of_region(std::string path) { return {std::move(path), true}; }
  explicit Builder(Graph graph) : graph_(std::move(graph)) {}  // to extend the graph

  Tensor input(const std::string& name, Shape shape, DType dtype, Labels labels, InputOf::Kind kind = InputOf::Kind::value);
  // In a body: the iteration's slice of a parameter that the enclosing repeat stacks.
  Tensor parameter(const std::string& name, Shape shape, DType dtype, ParameterOf attributes);
  // A value that a program keeps from run to run: an input whose next value is the result of the same name. In a body: the iteration's
  // slice of a state that the enclosing repeat stacks.
  Tensor state(const std::string& name, Shape shape, DType dtype, Labels labels);
  void keep(Tensor state, Tensor changed);
  // In a body: the iteration's slice of a tensor of the enclosing graph, whose stacked dims start at `position`.
  Tensor slice_of(Tensor outer, int stacked_dims, int position = 0);
  // An input of a region's body: one device's shard.
  Tensor shard_input(const std::string& name, Shape shape, DType dtype, sharding::AxisList own_axes);
  const sharding::AxisList& own_axes(ValueId id) const { return graph_.value(id).spec.own; }

  // Adds a node under the current path joined with `name`.
  std::vector<Tensor> add(Op op, const std::string& name, const std::vector<Tensor>& operands, Attributes attributes,
                          const std::vector<std::pair<Shape, DType>>& results);
  Tensor add_one(Op op, const std::string& name, const std::vector<Tensor>& operands, Attributes attributes, Shape shape,
                 DType dtype);

  void mark_result(Tensor tensor) { graph_.results.push_back(tensor.id); }
  void mark_result(Tensor tensor, std::string name) {
    graph_.results.push_back(tensor.id);
    graph_.result_names.push_back(std::move(name));
  }
  const Graph& graph() const { return graph_; }
  Graph take() { return std::move(graph_); }

  std::string path(const std::string& name) const;
  void set_path(std::string path) { scopes_.assign(path.empty() ? 0 : 1, std::move(path)); }
  void set_phase(Phase phase) { phase_ = phase; }
  // Nodes that are added next replace this node: they get its path and its phase.
  void stand_in_for(const Node& node) {
    set_path(node.path);
    set_phase(node.phase);
  }
  Tensor tensor(ValueId id) { return {this, id}; }
  void set_tag(Tensor tensor, std::string tag);
  void name_last(std::string path) { graph_.nodes.back().path = std::move(path); }  // the node added last

  // For layers outside a pipeline: their constraints let the stage axis shard the batch.
  void let_stages_carry_batch(bool on) { stage_as_data_ = on; }
  bool stages_carry_batch() const { return stage_as_data_; }

 private:
  friend class Scope;
  friend struct Tensor;
  Builder(std::string path, bool in_region) : in_region_(in_region), scopes_{std::move(path)} {}
  friend std::vector<Tensor> repeat(Builder&, const Stack&, const std::vector<Tensor>&,
                                    const std::vector<Tensor>&, const struct Body&);

  // A slice of a stacked value: of a parameter, of a state, or of a tensor of the enclosing graph.
  struct Pending {
    std::string path;
    Tensor slice;
    std::variant<ParameterOf, InputOf, Tensor> whole;
    int position = 0;  // of the stacked dims in the tensor of the enclosing graph
  };
  struct Kept {
    std::string path;
    Tensor changed;
  };

  Tensor parameter_at(const std::string& path, Shape shape, DType dtype, ParameterOf attributes);
  Tensor state_at(const std::string& path, Shape shape, DType dtype, Labels labels);
  Tensor root_at(Op op, const std::string& path, Shape shape, DType dtype, Attributes attributes);
  void keep_at(const std::string& path, Tensor changed);
  Tensor stack(const Pending& pending, const Stack& stack, int position);

  Graph graph_;
  Builder* outer_ = nullptr;
  bool stage_as_data_ = false;
  bool in_region_ = false;
  Phase phase_ = Phase::forward;
  std::vector<std::string> scopes_;
  std::vector<Pending> stacked_;
  std::vector<Kept> kept_;  // states with their next values, in a body
};

// Prefixes the paths of the nodes that are added while it lives.
class Scope {
 public:
  Scope(Builder& builder, std::string name);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Builder& builder_;
};

// Contraction of two operands; letters name dims, e.g. "bsm,mh->bsh".
Tensor einsum(const std::string& name, const std::string& equation, Tensor a, Tensor b, Rounded rounded = Rounded::none);

Tensor unary(Unary function, Tensor x, double a = 0, double b = 0);
Tensor binary(Binary function, Tensor a, Tensor b);
Tensor add(Tensor a, Tensor b);
Tensor multiply(Tensor a, Tensor b);
Tensor scale(Tensor x, double factor);
Tensor multiply_all(Tensor x, Tensor one);  // by a value of one element
Tensor cast(Tensor x, DType dtype);
Tensor broadcast(Tensor x, Shape shape, std::vector<int> dims);
// Adds a bias over the last dims of x, broadcast over the others.
Tensor add_bias(Tensor x, Tensor bias);
Tensor reduce(Reduction function, Tensor x, std::vector<int> dims);
Tensor softmax(Tensor x);
Tensor reshape(Tensor x, Shape shape);
Tensor detach(Tensor x);  // no gradient flows back through it
Tensor transpose(Tensor x, std::vector<int> order);
std::vector<int> inverse(const std::vector<int>& order);  // the order that undoes this one
Tensor slice(Tensor x, int dim, std::int64_t begin, std::int64_t size);
Tensor concat(const std::vector<Tensor>& parts, int dim);
// The cache, [B, T, ...], after rows [B, S, ...] are written to the slots [B, S] among its T.
Tensor cache_write(Tensor cache, Tensor rows, Tensor slots, CacheWriteOf of = {});
Tensor cache_write(Tensor cache, const std::vector<Tensor>& rows_and_slots, CacheWriteOf of);

// Asks for a layout. `why` and the dumps show it under this name.
Tensor constrain(const std::string& name, Tensor x, ConstraintOf constraint);
Tensor constrain(const std::string& name, Tensor x, Labels labels);

// How layers are stacked: sizes and labels of the dims that stacking adds, and their position among a parameter's dims.
struct Stack {
  std::string name;
  std::vector<std::int64_t> sizes;
  Labels labels;
  int position = 0;
};

struct Body {
  // Maps the iteration's carried and shared tensors to the carried tensors of the next, followed by the per-iteration results.
  std::function<std::vector<Tensor>(Builder&, const std::vector<Tensor>&, const std::vector<Tensor>&)> build;
  int position = 0;  // of the stacked dims in the stacked per-iteration results
};

// Names the tensor for remat policies.
Tensor tag(Tensor x, std::string name);

Tensor fill(Builder& builder, double value, Shape shape, DType dtype);
Tensor pad(Tensor x, int dim, std::int64_t before, std::int64_t after);

std::vector<Tensor> repeat(Builder& builder, const Stack& stack, const std::vector<Tensor>& carried,
                           const std::vector<Tensor>& shared, const Body& body);

}  // namespace moesh::graph
