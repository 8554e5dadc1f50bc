// The equation of an einsum: letters name the dims of two operands and of the result.
#pragma once

#include <string>

#include "graph/graph.h"

namespace moesh::graph {

struct Equation {
  std::string a, b, result;

  std::string text() const { return a + "," + b + "->" + result; }
};

// Whether the text is "letters,letters->letters", where the result's letters occur in the operands and no term has a letter twice.
bool is_equation(const std::string& text);

Equation parse_equation(const std::string& text);  // "bsm,mh->bsh"

// The shape of what is read of an einsum's second operand.
Shape shape_read(const EinsumOf& of, Shape shape);

}  // namespace moesh::graph
