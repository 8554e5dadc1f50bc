// Which process owns which devices.
#include "mesh/owners.h"

#include <gtest/gtest.h>

#include "tests/support.h"

namespace moesh::mesh {
namespace {

TEST(Owners, HaveDevicesInARow) {
  const Mesh mesh({{"x", 2, 1}, {"y", 3, 1}});
  const Owners owners = Owners::in_a_row(mesh, 4);
  EXPECT_EQ(owners.count(), 4);
  std::vector<int> of;
  for (std::int64_t device = 0; device < 6; ++device) of.push_back(owners.of(mesh.coordinates_of(device)));
  EXPECT_EQ(of, (std::vector<int>{0, 0, 1, 2, 2, 3}));
  EXPECT_EQ(owners.devices(1), (std::vector<Coordinates>{{0, 2}}));
  EXPECT_EQ(Owners(mesh).devices(0).size(), 6u);
}

TEST(Owners, AreRefusedWhereTheyDoNotFit) {
  const Mesh mesh({{"x", 2, 1}});
  EXPECT_EQ(test::message_of([&] { Owners::in_a_row(mesh, 3); }),
            "owners: 3 owners for 2 devices\n  fix: as many as there are devices at most");
  EXPECT_EQ(test::message_of([&] { Owners(mesh, {0}); }), "owners of 1 devices, the mesh has 2");
  EXPECT_EQ(test::message_of([&] { Owners(mesh, {0, 2}); }), "owner 1 of 3 has no device");
}

}  // namespace
}  // namespace moesh::mesh
