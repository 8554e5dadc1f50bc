#include "base/dtype.h"

#include <array>
#include <utility>

namespace moesh {
namespace {

constexpr std::array<std::pair<DType, std::string_view>, 5> kNames{{{DType::float32, "float32"},
                                                                    {DType::bfloat16, "bfloat16"},
                                                                    {DType::float64, "float64"},
                                                                    {DType::int32, "int32"},
                                                                    {DType::boolean, "bool"}}};

}  // namespace

std::string_view name_of(DType dtype) {
  for (const auto& [type, name] : kNames) {
    if (type == dtype) return name;
  }
  return "?";
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const auto& [type, spelled] : kNames) {
    if (spelled == name) return type;
  }
  return std::nullopt;
}

}  // namespace moesh
