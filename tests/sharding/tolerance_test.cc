// How large a part of the parameters may leave a mesh axis unused.
#include "sharding/tolerance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support.h"

namespace moesh::sharding {
namespace {

using ::testing::HasSubstr;

// The parameter `spread` has 16 rows sharded over fsdp, `whole` has 4 rows and is replicated.
Layout made_of_axes(std::vector<mesh::Axis> axes) {
  Layout layout{mesh::Mesh(std::move(axes)), "", {}, false, {}, {}, {}, {}, {}};
  const mesh::AxisIndex fsdp = layout.mesh.find("fsdp").value();
  LaidTensor spread, whole;
  spread.path = "spread";
  spread.shape = {16};
  spread.spec.dims = {{fsdp}};
  whole.path = "whole";
  whole.shape = {4};
  whole.spec.dims = {{}};
  layout.parameters = {spread, whole};
  return layout;
}

std::string refusal(const Layout& layout, const std::string& tolerance) {
  const config::Settings settings = config::load({"sharding_tolerance=" + tolerance}).settings;
  return test::message_of([&] { check_tolerance(layout, settings); });
}

TEST(Tolerance, CountsParametersThatLeaveOutAnAxis) {
  const Layout layout = made_of_axes({{"fsdp", 2, 1}});
  EXPECT_EQ(refusal(layout, "0.2"), "no error");
  EXPECT_EQ(
      refusal(layout, "0.19"),
      "the command line: 20.0 % of the parameters leave out an axis of the mesh, the largest is whole, which leaves "
      "out fsdp; sharding_tolerance allows 19.0 %\n"
      "  fix: another layout (`moesh lint` tells), or a larger sharding_tolerance");
}

// At its default of 2 % the check only warns, since layouts in common use exceed it.
TEST(Tolerance, RefusesOnlyWhereItIsGiven) {
  ::testing::internal::CaptureStderr();
  check_tolerance(made_of_axes({{"fsdp", 2, 1}}), config::load({}).settings);
  EXPECT_EQ(
      ::testing::internal::GetCapturedStderr(),
      "moesh: warning: 20.0 % of the parameters leave out an axis of the mesh, the largest is whole, which leaves out "
      "fsdp\n");
}

TEST(Tolerance, WantsEveryAxisButData) {
  EXPECT_THAT(refusal(made_of_axes({{"fsdp", 2, 1}, {"tensor", 2, 1}}), "0.9"), HasSubstr("100.0 % of the parameters"));
  EXPECT_EQ(refusal(made_of_axes({{"fsdp", 2, 1}, {"data", 2, 1}, {"tensor", 1, 1}}), "0.2"), "no error");
  EXPECT_EQ(refusal(made_of_axes({{"fsdp", 1, 1}, {"data", 8, 1}}), "0"), "no error") << "no axis to lie on";
}

}  // namespace
}  // namespace moesh::sharding
