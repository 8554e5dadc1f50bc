// The passes that make a training step of a model, in the order in which they run. Each can be looked at.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "graph/graph.h"

namespace moesh::train {

struct GraphPass {
  std::string_view name;
  std::string_view before;  // what holds of the graph that it is given
  std::string_view after;   // and of the one that it gives
  bool says_layouts = false;  // of every value
};
std::span<const GraphPass> graph_passes();

// Is shown the graph after each pass.
using SeeGraph = std::function<void(std::string_view pass, const graph::Graph& graph)>;

// How the passes are called where they are run.
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
inline constexpr std::string_view chain = "chain";
}  // namespace pass_names

}  // namespace moesh::train
