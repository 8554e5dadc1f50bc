// Prints the fields of ops, and of other types that list their fields; reader.h reads them back.
#pragma once

#include <algorithm>
#include <bit>
#include <cctype>
#include <concepts>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/core.h>

#include "base/text.h"
#include "graph/fields.h"

namespace moesh::graph {

// A type with a list of fields: fields_of in fields.h, or next to the type.
template <typename Of>
concept HasFields = requires {
  fields_of(static_cast<const Of*>(nullptr));
};

// Enumerators are printed even at their defaults, because an op is unclear without them. Only roles, labelling, kinds of inputs,
// phases and roundings say nothing at their defaults.
template <typename T>
constexpr bool is_always_printed = std::is_enum_v<T> && !std::is_same_v<T, Role> && !std::is_same_v<T, InputOf::Kind> &&
                                   !std::is_same_v<T, Phase> && !std::is_same_v<T, Rounded> && !std::is_same_v<T, ParameterOf::Labelled>;

// Text of letters, digits and a few signs is left as it is; other text is put in quotes.
inline std::string quoted(const std::string& text) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("_-/.").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return text;
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') made += '\\';
    made += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return made + '"';
}

class Words {
 public:
  // Axes are printed with their names in the mesh, or as numbers without a mesh.
  explicit Words(const mesh::Mesh* mesh) : mesh_(mesh) {}

  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int value) const { return std::to_string(value); }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(DType value) const { return std::string(name_of(value)); }
  std::string operator()(const std::string& value) const { return quoted(value); }
  std::string operator()(const std::vector<int>& values) const { return list("[", values, "]"); }
  std::string operator()(const std::vector<std::int64_t>& values) const { return list("[", values, "]"); }
  std::string operator()(const Labels& labels) const {
    std::vector<std::string> all;
    for (const std::string& label : labels) all.push_back(label.empty() ? "-" : label);
    return "(" + join(all, ", ") + ")";
  }
  std::string operator()(const sharding::AxisList& axes) const {
    std::vector<std::string> all;
    for (const sharding::AxisIndex axis : axes) all.push_back(mesh_ == nullptr ? std::to_string(axis) : mesh_->axis(axis).name);
    return "(" + join(all, ", ") + ")";
  }
  std::string operator()(const sharding::Spec& spec) const {
    std::vector<std::string> dims;
    for (const sharding::AxisList& axes : spec.dims) dims.push_back(axes.empty() ? "-" : (*this)(axes));
    return "[" + join(dims, ", ") + "]" + (spec.partial.empty() ? "" : "+sum" + (*this)(spec.partial)) +
           (spec.own.empty() ? "" : "+own" + (*this)(spec.own));
  }
  std::string operator()(const std::vector<sharding::Spec>& specs) const { return list("{", specs, "}"); }
  std::string operator()(const mesh::Mesh& mesh) const {
    std::vector<std::string> all;
    for (const mesh::Axis& axis : mesh.axes()) {
      all.push_back(axis.dcn == 1 ? fmt::format("{}={}", axis.name, axis.ici)
                                  : fmt::format("{}={}x{}", axis.name, axis.dcn, axis.ici));
    }
    return "{" + join(all, " ") + "}";
  }
  std::string operator()(const std::shared_ptr<const mesh::Mesh>& mesh) const { return (*this)(*mesh); }
  template <typename Word>
  requires std::is_enum_v<Word> std::string operator()(Word word) const {
    return std::string(words_of(static_cast<const Word*>(nullptr))[static_cast<std::size_t>(word)]);
  }
  template <HasFields Of>
  std::string operator()(const Of& of) const {
    return "{" + fields(of) + "}";
  }
  template <HasFields Of>
  std::string operator()(const std::vector<Of>& all) const {
    return list("[", all, "]");
  }

  // The fields that are not at their defaults, and enumerators: "equation=\"bsm,mh->bsh\"".
  template <typename Of>
  std::string fields(const Of& of) const {
    const Of blank{};
    std::vector<std::string> all;
    const auto add = [&](const auto& field) {
      using T = std::remove_cvref_t<decltype(of.*field.member)>;
      if (is_always_printed<T> || !is_equal(of.*field.member, blank.*field.member)) {
        all.push_back(fmt::format("{}={}", field.name, (*this)(of.*field.member)));
      }
    };
    std::apply([&](const auto&... field) { (add(field), ...); }, fields_of(static_cast<const Of*>(nullptr)));
    return join(all, " ");
  }

 private:
  template <typename T>
  static bool is_equal(const T& a, const T& b) {
    // -0.0 and 0.0 are different numbers here.
    if constexpr (std::same_as<T, double>)
      return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
    else
      return a == b;
  }

  template <typename T>
  std::string list(const char* open, const std::vector<T>& values, const char* close) const {
    std::vector<std::string> all;
    for (const T& value : values) all.push_back((*this)(value));
    return open + join(all, ", ") + close;
  }

  const mesh::Mesh* mesh_;
};

}  // namespace moesh::graph
