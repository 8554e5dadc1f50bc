#include "graph/parse.h"

#include <cctype>
#include <map>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "graph/facts.h"
#include "graph/fields.h"

namespace moesh::graph {
namespace {

using sharding::AxisList;
using sharding::Spec;

constexpr int kDeepest = 16;  // bodies within bodies

using Numbers = std::map<ValueId, ValueId>;  // of values: as printed, and as read

// A line and how far it is read.
class Line {
 public:
  Line(std::string_view text, std::size_t number) : text_(text), number_(number) { skip(); }

  [[noreturn]] void refuse_here(const std::string& expected) const {
    const std::string_view rest = text_.substr(at_);
    refuse(fmt::format("{} was expected, not {}", expected,
                       rest.empty() ? "the line's end" : fmt::format("'{}'", shorten(rest, 40))),
           where());
  }
  std::string where() const { return fmt::format("line {} of the graph", number_); }

  bool ends() const { return at_ == text_.size(); }
  bool sees(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  bool takes(std::string_view word) {
    if (!sees(word)) return false;
    at_ += word.size();
    skip();
    return true;
  }
  void expect(std::string_view word) {
    if (!takes(word)) refuse_here(fmt::format("'{}'", word));
  }
  // Letters, digits and "_-/." up to anything else.
  std::string word(const std::string& what) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  std::string_view("_-/.+").find(text_[at_]) != std::string_view::npos))
      ++at_;
    if (at_ == begin) refuse_here(what);
    const std::string made(text_.substr(begin, at_ - begin));
    skip();
    return made;
  }
  std::string until(char end) {
    const std::size_t stop = text_.find(end, at_);
    if (stop == std::string_view::npos) refuse_here(fmt::format("a closing {}", end));
    const std::string made(text_.substr(at_, stop - at_));
    at_ = stop + 1;
    skip();
    return made;
  }
  std::string rest() {
    const std::string made(text_.substr(at_));
    at_ = text_.size();
    return made;
  }
  std::int64_t integer() {
    const Line before = *this;
    const std::optional<std::int64_t> value = parse_integer(word("a number"));
    if (!value) before.refuse_here("a number");
    return *value;
  }
  double real() {
    const Line before = *this;
    const std::optional<double> value = parse_real(word("a number"));
    if (!value) before.refuse_here("a number");
    return *value;
  }
  ValueId value_id() {
    expect("%");
    const std::int64_t id = integer();
    if (id < 0 || id > 1'000'000'000) refuse_here("a value's number below 1e9");
    return static_cast<ValueId>(id);
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  std::string_view text_;
  std::size_t number_;
  std::size_t at_ = 0;
};

// Items up to a closing bracket, which is read too.
template <typename Item>
void read_list(Line& line, std::string_view open, std::string_view close, const Item& item) {
  line.expect(open);
  if (line.takes(close)) return;
  do item();
  while (line.takes(","));
  line.expect(close);
}

mesh::Mesh read_mesh(Line& line) {
  std::vector<mesh::Axis> axes;
  line.expect("{");
  while (!line.takes("}")) {
    mesh::Axis axis{line.word("an axis"), 1, 1};
    line.expect("=");
    const std::vector<std::string> sizes = split(line.word("a size"), 'x');
    const auto size = [&](std::size_t i) {
      const std::optional<std::int64_t> value = parse_integer(sizes[i]);
      if (!value || *value < 1 || *value > (1 << 20)) line.refuse_here("an axis' size from 1 to 2^20 before this");
      return *value;
    };
    axis.ici = size(sizes.size() - 1);
    if (sizes.size() == 2) axis.dcn = size(0);
    axes.push_back(axis);
    if (axes.size() > 64) line.refuse_here("at most 64 axes");
  }
  return mesh::Mesh(std::move(axes));
}

// The values of fields, as print.cc writes them.
class Reader {
 public:
  Reader(Line& line, const mesh::Mesh* mesh) : line_(line), mesh_(mesh) {}

  void operator()(bool& value) {
    if (line_.takes("true")) {
      value = true;
    } else {
      line_.expect("false");
      value = false;
    }
  }
  void operator()(int& value) { value = small(line_.integer()); }
  void operator()(std::int64_t& value) { value = line_.integer(); }
  void operator()(double& value) { value = line_.real(); }
  void operator()(std::string& value) { value = line_.takes("\"") ? line_.until('"') : line_.word("a word"); }
  void operator()(std::vector<int>& values) {
    read_list(line_, "[", "]", [&] { values.push_back(small(line_.integer())); });
  }
  void operator()(std::vector<std::int64_t>& values) {
    read_list(line_, "[", "]", [&] { values.push_back(line_.integer()); });
  }
  void operator()(Labels& labels) {
    read_list(line_, "(", ")", [&] {
      const std::string label = line_.word("a label");
      labels.push_back(label == "-" ? "" : label);
    });
  }
  void operator()(AxisList& axes) {
    read_list(line_, "(", ")", [&] { axes.push_back(axis()); });
  }
  void operator()(Spec& spec) {
    read_list(line_, "[", "]", [&] {
      spec.dims.emplace_back();
      if (!line_.takes("-")) (*this)(spec.dims.back());
    });
    if (line_.takes("+sum")) (*this)(spec.partial);
    if (line_.takes("+own")) (*this)(spec.own);
  }
  void operator()(std::vector<Spec>& specs) {
    read_list(line_, "{", "}", [&] { (*this)(specs.emplace_back()); });
  }
  // What follows on the line lies on this mesh.
  void operator()(std::shared_ptr<const mesh::Mesh>& mesh) {
    mesh = std::make_shared<const mesh::Mesh>(read_mesh(line_));
    mesh_ = mesh.get();
  }
  void operator()(Initializer& initializer) {
    line_.expect("{");
    fields(initializer);
    line_.expect("}");
  }
  template <typename Word>
  requires std::is_enum_v<Word>
  void operator()(Word& value) {
    constexpr auto words = words_of(static_cast<const Word*>(nullptr));
    const Line before = line_;
    const std::string word = line_.word("a word");
    const auto found = std::find(words.begin(), words.end(), word);
    if (found == words.end()) before.refuse_here("one of " + join({words.begin(), words.end()}, ", "));
    value = static_cast<Word>(found - words.begin());
  }

  template <typename Of>
  void fields(Of& of) {
    const auto read = [&](const auto& field) {
      const std::string opening = fmt::format("{}=", field.name);
      if (!line_.takes(opening)) return;
      of.*field.member = {};
      (*this)(of.*field.member);
    };
    std::apply([&](const auto&... field) { (read(field), ...); }, fields_of(static_cast<const Of*>(nullptr)));
  }

 private:
  int small(std::int64_t value) {
    if (value < -1'000'000'000 || value > 1'000'000'000) line_.refuse_here("a number up to 1e9 before this");
    return static_cast<int>(value);
  }

  sharding::AxisIndex axis() {
    const Line before = line_;
    const std::string name = line_.word("an axis");
    const std::optional<mesh::AxisIndex> found = mesh_ == nullptr ? std::nullopt : mesh_->find(name);
    if (!found) before.refuse_here("an axis of the mesh");
    return *found;
  }

  Line& line_;
  const mesh::Mesh* mesh_;
};

std::optional<Op> find_op(const std::string& name) {
  for (int i = 0; i < kOps; ++i) {
    if (name_of(static_cast<Op>(i)) == name) return static_cast<Op>(i);
  }
  return std::nullopt;
}

class Parser {
 public:
  explicit Parser(const std::string& text) : lines_(split(text, '\n')) {}

  ParsedGraph run() {
    ParsedGraph parsed;
    if (Line line = here(); line.takes("mesh ")) {
      parsed.mesh = read_mesh(line);
      ++next_;
    }
    Numbers numbers;
    parsed.graph = graph(parsed.mesh ? &*parsed.mesh : nullptr, 0, numbers);
    while (next_ < lines_.size()) {
      if (!here().ends()) here().refuse_here("nothing behind the graph's return");
      ++next_;
    }
    return parsed;
  }

 private:
  Line here() const {
    if (next_ == lines_.size()) return {"", next_};
    return {lines_[next_], next_ + 1};
  }

  Graph graph(const mesh::Mesh* mesh, int depth, Numbers& numbers) {
    if (depth > kDeepest) here().refuse_here(fmt::format("at most {} bodies within each other", kDeepest));
    Graph made;
    while (true) {
      Line line = here();
      ++next_;
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
      made.result_names.push_back(line.word("a name"));
    } while (line.takes(","));
    if (!line.ends()) line.refuse_here("the line's end");
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
    const Line before = line;
    const std::string name = line.word("an op");
    const std::optional<Op> op = find_op(name);
    if (!op) before.refuse_here("an op");
    node.op = *op;
    if (line.sees("%")) {
      do node.operands.push_back(known(line, numbers));
      while (line.takes(","));
    }
    node.attributes = facts_of(node.op).attributes();
    std::visit(
        [&]<typename Of>(Of& of) {
          if constexpr (!std::is_same_v<Of, std::monostate>) Reader(line, mesh).fields(of);
        },
        node.attributes);
    if (line.takes("tag ")) node.tag = line.word("a tag");
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
    const Line before = line;
    const std::optional<DType> dtype = parse_dtype(line.word("a type"));
    if (!dtype) before.refuse_here("a type");
    value.dtype = *dtype;
    double count = 1;
    read_list(line, "[", "]", [&] {
      const std::int64_t size = line.integer();
      if (size < 0 || size > (std::int64_t{1} << 40)) line.refuse_here("a size up to 2^40 before this");
      value.shape.push_back(size);
      count *= static_cast<double>(size);
      if (count > 1e15) line.refuse_here("at most 1e15 elements before this");
    });
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
