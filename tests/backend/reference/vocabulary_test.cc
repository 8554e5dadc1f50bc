// Tests of the plain kernels that map tokens to vectors.
#include <gmock/gmock.h>

#include "tests/backend/cpu/kernel_support.h"
#include "tests/support.h"

namespace moesh::backend::test {
namespace {

TEST(PlainEmbed, RefusesTokensOutsideTheVocabulary) {
  for (const double token : {-1.0, 5.0}) {
    const Call call{Op::embed,
                    {},
                    {noise(DType::float32, {5, 2}, 1), values(DType::int32, {1}, {token})},
                    {Tensor(DType::float32, {1, 2})}};
    EXPECT_EQ(
        moesh::test::message_of([&] { run_plain(call); }),
        fmt::format("the batch: token {}, the vocabulary has 5\n  fix: use data that belongs to this model", token));
  }
}

}  // namespace
}  // namespace moesh::backend::test
