#include "measure/kernels.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/gemm.h"
#include "base/error.h"

namespace moesh::measure {
namespace {

// A library that computes with this engine's own kernel, and counts its calls; `scale` says by how much its numbers are off.
Library own_library(int& calls, float scale) {
  return {"own 1.0", [&calls, scale](const Product& of) {
            using backend::cpu::steps;
            ++calls;
            const auto along = [](bool is_transposed, std::int64_t rows, std::int64_t columns) {
              return is_transposed ? std::pair{steps(rows, 1), steps(columns, rows)} : std::pair{steps(rows, columns), steps(columns, 1)};
            };
            const auto [a_rows, a_columns] = along(of.a_transposed, of.rows, of.depth);
            const auto [b_rows, b_columns] = along(of.b_transposed, of.depth, of.columns);
            const auto [c_rows, c_columns] = along(false, of.rows, of.columns);
            const backend::cpu::Offsets one = steps(1, 1);
            backend::cpu::multiply<float, float, float>(nullptr, backend::cpu::chosen_isa(), {of.a, one, a_rows, a_columns},
                                                        {of.b, one, b_rows, b_columns}, {of.c, one, c_rows, c_columns});
            std::for_each(of.c, of.c + of.rows * of.columns, [&](float& value) { value *= scale; });
          }};
}

// Every product is given to the library as what the kernel computes, or time_of would refuse.
TEST(LibrarySlow, TakesTurnsWithEveryFloat32Product) {
  backend::Workers workers(1);
  int products = 0;
  for (const TypedKernel& kernel : kernels_with("")) {
    const bool is_product = kernel.name.starts_with("einsum") || kernel.name.starts_with("grouped");
    if (!is_product && kernel.name.find("norm") == std::string::npos) continue;
    int calls = 0;
    const KernelTime time = time_of(kernel, workers, {own_library(calls, 1), own_library(calls, 1)});
    if (!is_product || kernel.dtype != DType::float32) {
      EXPECT_TRUE(time.by_libraries.empty()) << kernel.name;
      EXPECT_EQ(calls, 0) << kernel.name;
      continue;
    }
    ++products;
    ASSERT_EQ(time.by_libraries.size(), 2U) << kernel.name;
    EXPECT_GT(time.by_libraries[0], 0) << kernel.name;
    EXPECT_GE(calls, kernel.name.starts_with("grouped") ? 2 * 8 : 2) << kernel.name;
  }
  EXPECT_EQ(products, 8);
}

TEST(Library, ThatComputesSomethingElseIsNotComparedWith) {
  backend::Workers workers(1);
  int calls = 0;
  try {
    time_of({"einsum: projection of a token", DType::float32}, workers, {own_library(calls, 1.01f)});
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.parts().what, "own 1.0 does not compute what moesh does");
    EXPECT_EQ(error.parts().where, "einsum: projection of a token");
    EXPECT_EQ(error.parts().fix, "look for what is wrong with the library");
  }
}

// Those that this machine has, if any, compute the same.
TEST(Library, ThatIsInstalledComputesTheSame) {
  backend::Workers workers(2);
  const std::vector<Library> libraries = installed_libraries(2);
  for (const Library& library : libraries) EXPECT_THAT(library.name, ::testing::ContainsRegex("^(OpenBLAS|oneDNN) [0-9]+\\.[0-9]+"));
  EXPECT_EQ(time_of({"einsum: projection of 8 tokens", DType::float32}, workers, libraries).by_libraries.size(), libraries.size());
}

}  // namespace
}  // namespace moesh::measure
