#include "graph/parse.h"

#include <map>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "graph/facts.h"
#include "graph/reader.h"

namespace moesh::graph {
namespace {

constexpr int kDeepest = 16;  // levels of nested bodies

using Numbers = std::map<ValueId, ValueId>;  // from a value's printed id to its id in the graph

class Parser {
 public:
  explicit Parser(const std::string& text) : lines_(split(text, '\n')) { skip_comments(); }

  ParsedGraph run() {
    ParsedGraph parsed;
    if (Line line = here(); line.takes("mesh ")) {
      parsed.mesh = read_mesh(line);
      line.expect_end();
      go_on();
    }
    Numbers numbers;
    parsed.graph = graph(parsed.mesh ? &*parsed.mesh : nullptr, 0, numbers);
    while (next_ < lines_.size()) {
      if (!here().ends()) here().refuse_here("nothing behind the graph's return");
      go_on();
    }
    return parsed;
  }

 private:
  Line here() const {
    const bool is_behind = next_ == lines_.size();
    return {is_behind ? std::string_view() : lines_[next_], fmt::format("line {} of the graph", is_behind ? next_ : next_ + 1)};
  }

  void skip_comments() {
    while (next_ < lines_.size() && lines_[next_].starts_with('#')) ++next_;
  }

  void go_on() {
    ++next_;
    skip_comments();
  }

  Graph graph(const mesh::Mesh* mesh, int depth, Numbers& numbers) {
    if (depth > kDeepest) here().refuse_here(fmt::format("at most {} bodies within each other", kDeepest));
    Graph made;
    while (true) {
      Line line = here();
      if (next_ < lines_.size()) go_on();
      if (line.takes("return")) {
        read_results(line, numbers, made);
        return made;
      }
      read_node(line, mesh, depth, numbers, made);
    }
  }

  static ValueId known(Line& line, const Numbers& numbers) {
    const Line before = line;
    const auto found = numbers.find(line.value_id());
    if (found == numbers.end()) before.refuse_here("a value that stands before");
    return found->second;
  }

  static void read_results(Line& line, const Numbers& numbers, Graph& made) {
    if (line.ends()) return;
    do {
      made.results.push_back(known(line, numbers));
      if (!line.takes("as ")) continue;
      if (made.result_names.size() + 1 != made.results.size()) line.refuse_here("names for the first results only");
      made.result_names.push_back(line.name("a name"));
    } while (line.takes(","));
    line.expect_end();
  }

  void read_node(Line& line, const mesh::Mesh* mesh, int depth, Numbers& numbers, Graph& made) {
    Node node;
    const auto id = static_cast<NodeId>(made.nodes.size());
    do {
      const Line before = line;
      const ValueId printed = line.value_id();
      node.results.push_back(static_cast<ValueId>(made.values.size()));
      made.values.push_back(read_value(line, id, mesh));
      if (!numbers.emplace(printed, node.results.back()).second) before.refuse_here("a value's new number");
    } while (line.takes(","));
    line.expect("=");
    node.op = read_op(line);
    if (line.sees("%")) {
      do node.operands.push_back(known(line, numbers));
      while (line.takes(","));
    }
    node.attributes = read_attributes(line, node.op, mesh);
    if (line.takes("tag ")) node.tag = line.name("a tag");
    if (line.takes("phase ")) Reader(line, mesh)(node.phase);
    line.expect("#");
    node.path = line.rest();
    if (auto* repeat = std::get_if<RepeatOf>(&node.attributes)) read_body(line, mesh, depth, *repeat);
    if (auto* region = std::get_if<RegionOf>(&node.attributes)) {
      if (region->written_for == nullptr) line.refuse_here("a region's mesh before this");
      read_body(line, region->written_for.get(), depth, *region);
    }
    check(line, made, node);
    made.nodes.push_back(std::move(node));
  }

  static Value read_value(Line& line, NodeId producer, const mesh::Mesh* mesh) {
    Value value{{}, DType::float32, producer, {}};
    line.expect(":");
    value.dtype = read_dtype(line);
    value.shape = read_shape(line);
    if (line.takes("as ")) {
      Reader(line, mesh)(value.spec);
      if (value.spec.dims.size() != value.shape.size()) line.refuse_here("axes for each dim before this");
    }
    return value;
  }

  template <typename Of>
  void read_body(Line& line, const mesh::Mesh* mesh, int depth, Of& of) {
    Numbers numbers;
    of.body = std::make_shared<const Graph>(graph(mesh, depth + 1, numbers));
    for (ValueId& id : of.saved) {
      if (!numbers.contains(id)) line.refuse_here("saved values of the body before this");
      id = numbers.at(id);
    }
  }

  static void check(const Line& line, const Graph& made, const Node& node) {
    const std::string what = problem_of({made, node});
    if (!what.empty()) refuse(fmt::format("{} does not fit its operands and results", what), line.where());
  }

  std::vector<std::string> lines_;
  std::size_t next_ = 0;
};

}  // namespace

ParsedGraph parse_graph(const std::string& text) { return Parser(text).run(); }

}  // namespace moesh::graph
