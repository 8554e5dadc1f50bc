// Tests that the lists of fields name every field: printing, reading, comparing and the partitioner's memory of its answers rely on them.
#include "graph/fields.h"

#include <gtest/gtest.h>

#include "graph/print.h"

namespace moesh::graph {
namespace {

struct Anything {
  template <typename T>
  operator T() const;  // NOLINT: never called
};

// How many members an aggregate has: as many values as it can be made of.
template <typename Of, typename... Given>
constexpr std::size_t members_of() {
  if constexpr (requires { Of{Given{}..., Anything{}}; }) return members_of<Of, Given..., Anything>();
  else return sizeof...(Given);
}

template <typename Of>
void expect_all_fields() {
  constexpr std::size_t bodies = std::is_same_v<Of, RepeatOf> || std::is_same_v<Of, RegionOf> ? 1 : 0;  // printed apart
  if constexpr (!std::is_same_v<Of, std::monostate>) {
    constexpr std::size_t listed = std::tuple_size_v<decltype(fields_of(static_cast<const Of*>(nullptr)))>;
    EXPECT_EQ(members_of<Of>(), listed + bodies) << to_text(Attributes(Of{}), nullptr);
  }
}

TEST(Fields, AreAllListed) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (expect_all_fields<std::variant_alternative_t<I, OneOfAttributes>>(), ...);
  }(std::make_index_sequence<std::variant_size_v<OneOfAttributes>>());
}

}  // namespace
}  // namespace moesh::graph
