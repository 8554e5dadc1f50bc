// Tests which slices products read in place.
#include "partition/fold_slices.h"

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/print.h"

namespace moesh::partition {
namespace {

std::string parts_read(const std::string& text) { return graph::to_text(with_slices_folded(graph::parse_graph(text).graph)); }

const std::string kRoots =
    "%0: float32[2, 3] = input labels=(-, -)  # x\n"
    "%1: float32[3, 9] = parameter labels=(-, -)  # w\n";
const std::string kSlice = "%2: float32[3, 4] = slice %1 dim=1 begin=5 size=4  # slice\n";

TEST(FoldSlices, ReadsAPartOfAWeightWhereItLies) {
  EXPECT_EQ(parts_read(kRoots + kSlice + "%3: float32[2, 4] = einsum %0, %2 equation=\"ab,bc->ac\"  # product\nreturn %3 as y\n"),
            kRoots + "%2: float32[2, 4] = einsum %0, %1 equation=\"ab,bc->ac\" part_dim=1 part_begin=5 part_size=4  # product\n"
                     "return %2 as y\n");
}

// The slice stays for others that read it, and a slice of anything but a weight stays, as the whole might be held for longer.
TEST(FoldSlices, LeavesTheRest) {
  EXPECT_EQ(parts_read(kRoots + kSlice + "%3: float32[2, 4] = einsum %0, %2 equation=\"ab,bc->ac\"  # product\nreturn %3 as y, %2 as part\n"),
            kRoots + kSlice + "%3: float32[2, 4] = einsum %0, %1 equation=\"ab,bc->ac\" part_dim=1 part_begin=5 part_size=4  # product\n"
                              "return %3 as y, %2 as part\n");
  for (const std::string rest : {"%2: float32[3, 9] = unary %1 function=silu  # silu\n"
                                 "%3: float32[3, 4] = slice %2 dim=1 size=4  # slice\n"
                                 "%4: float32[2, 4] = einsum %0, %3 equation=\"ab,bc->ac\"  # product\nreturn %4 as y\n",
                                 "%2: float32[1, 3] = slice %0 begin=1 size=1  # slice\n"
                                 "%3: float32[1, 9] = einsum %2, %1 equation=\"ab,bc->ac\"  # product\nreturn %3 as y\n"}) {
    EXPECT_EQ(parts_read(kRoots + rest), kRoots + rest);
  }
}

}  // namespace
}  // namespace moesh::partition
