#include "graph/matrix_dims.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "base/text.h"

namespace moesh::graph {
namespace {

bool any_part(const std::vector<std::string>& parts, std::initializer_list<std::string_view> names) {
  return std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
    return std::find(names.begin(), names.end(), part) != names.end();
  });
}

bool any_holds(const std::vector<std::string>& parts, std::initializer_list<std::string_view> words) {
  return std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
    return std::any_of(words.begin(), words.end(),
                       [&](std::string_view word) { return part.find(word) != std::string::npos; });
  });
}

}  // namespace

MatrixDims matrix_dims(const std::string& path, const Shape& shape) {
  const std::vector<std::string> parts = split(path, '/');
  if (any_holds(parts, {"scale", "embedding", "logits_dense", "sinks"}) || any_part(parts, {"bias"})) return {};
  const int last = static_cast<int>(shape.size()) - 1;
  const bool experts = any_part(parts, {"MoeBlock_0", "moe_block", "GptOssMlp"}) && !any_part(parts, {"gate"});
  const bool attention = any_part(parts, {"self_attention", "GptOssAttention"});
  if (experts) return {true, {last - 1}, {last}};
  if (attention && any_part(parts, {"out"})) return {true, {0, last - 1}, {last}};
  if (attention && any_part(parts, {"query", "key", "value", "wq_b", "wkv_b"})) return {true, {0}, {last - 1, last}};
  return {true, {0}, {last}};
}

}  // namespace moesh::graph
