#include "graph/reader.h"

#include <cctype>
#include <charconv>

#include <fmt/core.h>

#include "base/error.h"
#include "graph/facts.h"

namespace moesh::graph {
namespace {

constexpr std::int64_t kMostDevices = std::int64_t{1} << 30;

}  // namespace

void Line::refuse_here(const std::string& expected) const {
  const std::string_view rest = text_.substr(at_);
  refuse(
      fmt::format("{} was expected, not {}", expected, rest.empty() ? "the line's end" : fmt::format("'{}'", shorten(rest, 40))),
      where_);
}

bool Line::takes(std::string_view word) {
  if (!sees(word)) return false;
  at_ += word.size();
  skip();
  return true;
}

void Line::expect(std::string_view word) {
  if (!takes(word)) refuse_here(fmt::format("'{}'", word));
}

void Line::expect_end() const {
  if (!ends()) refuse_here("the line's end");
}

std::string Line::word(const std::string& what) {
  const std::size_t begin = at_;
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("_-/.+").find(c) != std::string_view::npos;
  };
  while (at_ < text_.size() && is_part(text_[at_])) ++at_;
  if (at_ == begin) refuse_here(what);
  const std::string made(text_.substr(begin, at_ - begin));
  skip();
  return made;
}

std::string Line::name(const std::string& what) { return sees("\"") ? in_quotes() : word(what); }

std::string Line::in_quotes() {
  std::string made;
  for (std::size_t i = at_ + 1; i < text_.size(); ++i) {
    if (text_[i] == '"') {
      at_ = i + 1;
      skip();
      return made;
    }
    const bool is_escaped = text_[i] == '\\' && i + 1 < text_.size();
    if (is_escaped) ++i;
    made += is_escaped && text_[i] == 'n' ? '\n' : text_[i];
  }
  refuse_here("a closing \"");
}

std::string Line::rest() {
  const std::string made(text_.substr(at_));
  at_ = text_.size();
  return made;
}

std::int64_t Line::integer() {
  const Line before = *this;
  const std::optional<std::int64_t> value = parse_integer(word("a number"));
  if (!value) before.refuse_here("a number");
  return *value;
}

// Reads a number as fmt writes it, including -0 and what is not finite.
double Line::real() {
  const Line before = *this;
  const std::string text = word("a number");
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || rest != text.data() + text.size()) before.refuse_here("a number");
  return value;
}

ValueId Line::value_id() {
  expect("%");
  const std::int64_t id = integer();
  if (id < 0 || id > 1'000'000'000) refuse_here("a value's number below 1e9");
  return static_cast<ValueId>(id);
}

void Line::skip() {
  while (at_ < text_.size() && text_[at_] == ' ') ++at_;
}

mesh::Mesh read_mesh(Line& line) {
  std::vector<mesh::Axis> axes;
  std::int64_t devices = 1;
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
    if (sizes.size() > 2) line.refuse_here("an axis' size, or its size between slices x its size within one, before this");
    axis.ici = size(sizes.size() - 1);
    if (sizes.size() == 2) axis.dcn = size(0);
    axes.push_back(axis);
    if (axes.size() > mesh::kMostAxes) line.refuse_here(fmt::format("at most {} axes", mesh::kMostAxes));
    if (axis.size() > kMostDevices / devices) line.refuse_here("at most 2^30 devices before this");
    devices *= axis.size();
  }
  return mesh::Mesh(std::move(axes));
}

DType read_dtype(Line& line) {
  const Line before = line;
  const std::optional<DType> dtype = parse_dtype(line.word("a type"));
  if (!dtype) before.refuse_here("a type");
  return *dtype;
}

Op read_op(Line& line) {
  const Line before = line;
  const std::string name = line.word("an op");
  for (int i = 0; i < kOps; ++i) {
    if (name_of(static_cast<Op>(i)) == name) return static_cast<Op>(i);
  }
  before.refuse_here("an op");
}

Shape read_shape(Line& line) {
  Shape shape;
  double count = 1;
  read_list(line, "[", "]", [&] {
    const std::int64_t size = line.integer();
    if (size < 0 || size > kMostSize) line.refuse_here("a size up to 2^40 before this");
    shape.push_back(size);
    count *= static_cast<double>(std::max<std::int64_t>(1, size));
    if (count > kMostElements) line.refuse_here("at most 1e15 elements before this");
  });
  return shape;
}

void Reader::operator()(bool& value) {
  value = line_.takes("true");
  if (!value) line_.expect("false");
}

void Reader::operator()(Labels& labels) {
  read_list(line_, "(", ")", [&] {
    const std::string label = line_.word("a label");
    labels.push_back(label == "-" ? "" : label);
  });
}

void Reader::operator()(sharding::AxisList& axes) {
  read_list(line_, "(", ")", [&] {
    if (axes.size() == mesh::kMostAxes) line_.expect(")");
    axes.push_back(axis());
  });
}

void Reader::operator()(sharding::Spec& spec) {
  read_list(line_, "[", "]", [&] {
    spec.dims.emplace_back();
    if (!line_.takes("-")) (*this)(spec.dims.back());
  });
  if (line_.takes("+sum")) (*this)(spec.partial);
  if (line_.takes("+own")) (*this)(spec.own);
}

void Reader::operator()(std::shared_ptr<const mesh::Mesh>& mesh) {
  mesh = std::make_shared<const mesh::Mesh>(read_mesh(line_));
  mesh_ = mesh.get();
}

int Reader::small(std::int64_t value) {
  if (value < -1'000'000'000 || value > 1'000'000'000) line_.refuse_here("a number up to 1e9 before this");
  return static_cast<int>(value);
}

sharding::AxisIndex Reader::axis() {
  const Line before = line_;
  const std::string name = line_.word("an axis");
  const std::optional<mesh::AxisIndex> found = mesh_ == nullptr ? std::nullopt : mesh_->find(name);
  if (!found) before.refuse_here("an axis of the mesh");
  return *found;
}

Attributes read_attributes(Line& line, Op op, const mesh::Mesh* mesh) {
  Attributes attributes = facts_of(op).attributes();
  std::visit(
      [&]<typename Of>(Of& of) {
        if constexpr (!std::is_same_v<Of, std::monostate>) Reader(line, mesh).fields(of);
      },
      attributes);
  return attributes;
}

}  // namespace moesh::graph
