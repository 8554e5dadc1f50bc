#include "graph/parts.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <set>

#include <fmt/core.h>

#include "graph/rewrite.h"

namespace moesh::graph {
namespace {

constexpr std::string_view kPart = "part_";

// The path with the part behind the path of the graph that has parts.
std::string path_in_part(const std::string& path, const std::string& outer, std::size_t part) {
  if (outer.empty()) return fmt::format("{}{}/{}", kPart, part, path);
  return fmt::format("{}/{}{}{}", outer, kPart, part, path.substr(outer.size()));
}

// Adds nodes once more for other parts.
class Copies {
 public:
  // The nodes from number `first` on depend on `given`, or do not.
  Copies(Builder& builder, std::size_t first, const std::vector<Tensor>& given) : builder_(builder), first_(first), given_(given) {
    std::set<ValueId> depend;
    for (const Tensor& tensor : given) depend.insert(tensor.id);
    const Graph& graph = builder.graph();
    for (std::size_t id = first; id < graph.nodes.size(); ++id) {
      const Node& node = graph.nodes[id];
      const bool depends = std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId of) { return depend.contains(of); });
      if (depends) depend.insert(node.results.begin(), node.results.end());
      depends_.push_back(depends);
    }
  }

  std::vector<Tensor> add(std::size_t part, const std::vector<Tensor>& given, const std::vector<Tensor>& made) {
    std::map<ValueId, Tensor> here;
    for (std::size_t i = 0; i < given.size(); ++i) here[given_[i].id] = given[i];
    const auto tensor = [&](ValueId id) {
      const auto found = here.find(id);
      return found == here.end() ? builder_.tensor(id) : found->second;
    };
    for (std::size_t i = 0; i < depends_.size(); ++i) {
      if (!depends_[i]) continue;
      const Node node = builder_.graph().nodes[first_ + i];  // a copy, because adding nodes moves those of the graph
      std::vector<Tensor> operands;
      for (const ValueId id : node.operands) operands.push_back(tensor(id));
      const std::vector<Tensor> results = add_like(node, part, operands);
      for (std::size_t k = 0; k < results.size(); ++k) here[node.results[k]] = results[k];
    }
    std::vector<Tensor> mine;
    for (const Tensor& result : made) mine.push_back(tensor(result.id));
    return mine;
  }

 private:
  std::vector<Tensor> add_like(const Node& node, std::size_t part, const std::vector<Tensor>& operands) {
    std::vector<Tensor> made = builder_.add(node.op, "", operands, attributes_in(node, part), results_of(builder_.graph(), node));
    builder_.name_last(path_in_part(node.path, outer_, part));
    if (!node.tag.empty()) builder_.set_tag(made.front(), node.tag);
    return made;
  }

  Attributes attributes_in(const Node& node, std::size_t part) const {
    Attributes attributes = node.attributes;
    const auto rename = [&](auto* of) {
      if (of == nullptr) return;
      Graph body = *of->body;
      for (Node& inner : body.nodes) {
        inner.path = path_in_part(inner.path, outer_, part);
        inner.attributes = attributes_in(inner, part);
      }
      of->body = std::make_shared<const Graph>(std::move(body));
    };
    rename(std::get_if<RegionOf>(&attributes));
    rename(std::get_if<RepeatOf>(&attributes));
    return attributes;
  }

  Builder& builder_;
  std::size_t first_;
  std::vector<Tensor> given_;
  std::vector<bool> depends_;  // by node from first_ on
  std::string outer_ = builder_.path("");
};

}  // namespace

std::vector<std::vector<Tensor>> in_parts(Builder& builder, const std::vector<std::vector<Tensor>>& given,
                                          const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& build) {
  const std::size_t first = builder.graph().nodes.size();
  std::vector<std::vector<Tensor>> made{build(given[0])};
  if (given.size() == 1) return made;
  Copies copies(builder, first, given[0]);
  for (std::size_t part = 1; part < given.size(); ++part) made.push_back(copies.add(part, given[part], made[0]));
  return made;
}

int part_of(std::string_view path) {
  std::size_t at = path.find(kPart);
  while (at != std::string_view::npos && at > 0 && path[at - 1] != '/') at = path.find(kPart, at + 1);
  if (at == std::string_view::npos) return 0;
  int part = 0;
  std::from_chars(path.data() + at + kPart.size(), path.data() + path.size(), part);
  return part;
}

}  // namespace moesh::graph
