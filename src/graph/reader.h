// Reads what words.h writes, line by line, and says where the text is not as expected.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "base/text.h"
#include "graph/words.h"

namespace moesh::graph {

// A line and the position up to which it is read. `where` names the line in messages: "line 3 of the graph".
class Line {
 public:
  Line(std::string_view text, std::string where) : text_(text), where_(std::move(where)) { skip(); }

  [[noreturn]] void refuse_here(const std::string& expected) const;
  const std::string& where() const { return where_; }

  bool ends() const { return at_ == text_.size(); }
  bool sees(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  bool takes(std::string_view word);
  void expect(std::string_view word);
  void expect_end() const;
  std::string word(const std::string& what);  // letters, digits and "_-/.+" up to anything else
  std::string name(const std::string& what);  // a word, or any text in quotes
  std::string rest();
  std::int64_t integer();
  double real();
  ValueId value_id();

 private:
  std::string in_quotes();
  void skip();

  std::string_view text_;
  std::string where_;
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

// "{fsdp=2 expert=2x4}"
mesh::Mesh read_mesh(Line& line);
DType read_dtype(Line& line);
Op read_op(Line& line);
// Keeps products of some of a shape's sizes below 2^63.
inline constexpr std::int64_t kMostSize = std::int64_t{1} << 40;
Shape read_shape(Line& line);

// Reads the values of fields as Words writes them. A field that is not given keeps its value.
class Reader {
 public:
  Reader(Line& line, const mesh::Mesh* mesh) : line_(line), mesh_(mesh) {}

  void operator()(bool& value);
  void operator()(int& value) { value = small(line_.integer()); }
  void operator()(std::int64_t& value) { value = line_.integer(); }
  void operator()(double& value) { value = line_.real(); }
  void operator()(DType& value) { value = read_dtype(line_); }
  void operator()(std::string& value) { value = line_.name("a word"); }
  void operator()(std::vector<int>& values) { read_items(values, "[", "]"); }
  void operator()(std::vector<std::int64_t>& values) { read_items(values, "[", "]"); }
  void operator()(Labels& labels);
  void operator()(sharding::AxisList& axes);
  void operator()(sharding::Spec& spec);
  void operator()(std::vector<sharding::Spec>& specs) { read_items(specs, "{", "}"); }
  // Layouts that follow on the line are on this mesh.
  void operator()(std::shared_ptr<const mesh::Mesh>& mesh);
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
  template <HasFields Of>
  void operator()(Of& of) {
    line_.expect("{");
    fields(of);
    line_.expect("}");
  }
  template <HasFields Of>
  void operator()(std::vector<Of>& all) {
    read_items(all, "[", "]");
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
  template <typename T>
  void read_items(std::vector<T>& values, std::string_view open, std::string_view close) {
    read_list(line_, open, close, [&] { (*this)(values.emplace_back()); });
  }

  int small(std::int64_t value);
  sharding::AxisIndex axis();

  Line& line_;
  const mesh::Mesh* mesh_;
};

// Reads the attributes of the op's type.
Attributes read_attributes(Line& line, Op op, const mesh::Mesh* mesh);

}  // namespace moesh::graph
