#include "graph/equation.h"

#include <algorithm>
#include <cassert>
#include <cctype>

#include "base/place.h"

namespace moesh::graph {
namespace {

bool are_letters(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
}

bool has_twice(std::string letters) {
  std::sort(letters.begin(), letters.end());
  return std::adjacent_find(letters.begin(), letters.end()) != letters.end();
}

}  // namespace

bool is_equation(const std::string& text) {
  const std::size_t comma = text.find(',');
  const std::size_t arrow = text.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow) return false;
  const Equation made = parse_equation(text);
  const bool known = std::all_of(made.result.begin(), made.result.end(),
                                 [&](char c) { return (made.a + made.b).find(c) != std::string::npos; });
  return known && are_letters(made.a) && are_letters(made.b) && !has_twice(made.a) && !has_twice(made.b) &&
         !has_twice(made.result);
}

Equation parse_equation(const std::string& text) {
  const std::size_t comma = text.find(',');
  const std::size_t arrow = text.find("->");
  assert(comma != std::string::npos && arrow != std::string::npos && comma < arrow);
  return {text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1), text.substr(arrow + 2)};
}

Shape shape_read(const EinsumOf& of, Shape shape) {
  if (of.part_size > 0) shape[at(of.part_dim)] = of.part_size;
  return shape;
}

}  // namespace moesh::graph
