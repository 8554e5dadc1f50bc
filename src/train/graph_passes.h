// The passes that turn a model into a training step, in the order in which they run. The graph can be looked at after each.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "graph/graph.h"

namespace moesh::train {

struct GraphPass {
  std::string_view name;
  std::string_view before;  // what is true of the graph before the pass
  std::string_view after;   // and after it
  bool says_layouts = false;  // whether every value has a layout after the pass
};
std::span<const GraphPass> graph_passes();

// Is shown the graph after each pass.
using SeeGraph = std::function<void(std::string_view pass, const graph::Graph& graph)>;

// Names of the passes, for the code that runs them.
namespace pass_names {
inline constexpr std::string_view model = "model";
inline constexpr std::string_view slots = "slots";
inline constexpr std::string_view remat = "remat";
inline constexpr std::string_view autodiff = "autodiff";
inline constexpr std::string_view step = "step";
inline constexpr std::string_view expand = "expand";
inline constexpr std::string_view partition = "partition";
inline constexpr std::string_view stack = "stack";
inline constexpr std::string_view fuse = "fuse";
inline constexpr std::string_view remat_gradients = "remat_gradients";
inline constexpr std::string_view single_loops = "single_loops";
inline constexpr std::string_view chain = "chain";
inline constexpr std::string_view overlap = "overlap";
}  // namespace pass_names

}  // namespace moesh::train
