// Compares the predicted times of collectives on described machines with figures worked out by hand.
#include "cost/collective.h"

#include <gtest/gtest.h>

#include "tests/support.h"

namespace moesh::cost {
namespace {

using Kind = graph::ReshardOf::Kind;
using sharding::AxisList;

constexpr double kReached = 0.8;  // the share of a link's rate that is reached, unless its file gives another share
constexpr double kBytes = 64e6;

struct Machine {
  mesh::Topology target;
  mesh::Mesh mesh;
  Network network;

  Machine(const std::string& name, std::vector<mesh::Axis> axes, std::int64_t slices = 1)
      : target(mesh::find_topology(name, slices)), mesh(std::move(axes)), network(mesh, target) {}

  double seconds(Kind kind, const AxisList& axes, double bytes = kBytes) const {
    return collective_seconds(kind, bytes, network.group(axes));
  }
};

// 2x2x2 chips without closed rings: a device has six ports of 100 GB/s, and neighbours at three of them.
TEST(CollectiveSeconds, OnASmallTorusEveryDimOfAGroupCarries) {
  const Machine v5p("v5p-16", {{"fsdp", 2, 1}, {"expert", 4, 1}});
  const double port = kReached * 100e9;
  EXPECT_DOUBLE_EQ(v5p.seconds(Kind::all_gather, {0}), 1e-6 + kBytes / port);
  EXPECT_DOUBLE_EQ(v5p.seconds(Kind::all_gather, {1}), 2e-6 + 3 * kBytes / (2 * port));
  EXPECT_DOUBLE_EQ(v5p.seconds(Kind::all_gather, {0, 1}), 3e-6 + 7 * kBytes / (3 * port));
  EXPECT_DOUBLE_EQ(v5p.seconds(Kind::reduce_scatter, {1}), 2e-6 + 0.75 * kBytes / (2 * port));
  EXPECT_DOUBLE_EQ(v5p.seconds(Kind::all_reduce, {1}), 2 * (2e-6 + 0.75 * kBytes / (2 * port)));
  EXPECT_DOUBLE_EQ(v5p.seconds(Kind::all_reduce, {1}, 4), 2e-6 + 3 * 4 / (2 * port)) << "little goes to all devices at once";
  EXPECT_DOUBLE_EQ(v5p.seconds(Kind::permute, {1}), 2e-6 + kBytes / port);
  EXPECT_EQ(v5p.seconds(Kind::slice, {1}), 0);
  EXPECT_EQ(v5p.seconds(Kind::all_gather, {}), 0);
}

// Half of what four devices on a square exchange crosses its middle, over two links. This takes longer than the ports by themselves would.
TEST(CollectiveSeconds, AnAllToAllOnATorusIsBoundedByWhatCrossesItsMiddle) {
  const double port = kReached * 100e9;
  const Machine square("v5p-16", {{"fsdp", 2, 1}, {"expert", 4, 1}});
  EXPECT_DOUBLE_EQ(square.seconds(Kind::all_to_all, {1}), 2e-6 + 0.5 * kBytes / port);
  EXPECT_GT(square.seconds(Kind::all_to_all, {1}), 2e-6 + 0.75 * kBytes / (2 * port));
  // The middle of a ring of four is crossed by two links in each direction.
  const Machine ring("v5p-128", {{"fsdp", 16, 1}, {"expert", 4, 1}});
  EXPECT_DOUBLE_EQ(ring.seconds(Kind::all_to_all, {1}), 2e-6 + kBytes / (2 * port));
  // A side of 8x8 chips is an open line, and a side of 16x16 chips is a ring. Apart from latency, an open line of eight takes as long as a
  // ring of sixteen.
  const Machine open("v6e-64", {{"fsdp", 8, 1}, {"expert", 8, 1}});
  const Machine closed("v6e-256", {{"fsdp", 16, 1}, {"expert", 16, 1}});
  EXPECT_DOUBLE_EQ(open.seconds(Kind::all_to_all, {1}), 7e-6 + 2 * kBytes / port);
  EXPECT_DOUBLE_EQ(closed.seconds(Kind::all_to_all, {1}), 8e-6 + 2 * kBytes / port);
}

TEST(CollectiveSeconds, AClosedRingCarriesBothWays) {
  const double port = kReached * 100e9;
  const Machine open("v6e-64", {{"fsdp", 8, 1}, {"expert", 8, 1}});
  const Machine closed("v6e-256", {{"fsdp", 16, 1}, {"expert", 16, 1}});
  EXPECT_DOUBLE_EQ(open.seconds(Kind::all_gather, {0}), 7e-6 + 7 * kBytes / port);
  EXPECT_DOUBLE_EQ(closed.seconds(Kind::all_gather, {0}), 8e-6 + 15 * kBytes / (2 * port));
}

// The outer axis has every second chip of a ring of four. Two such pairs share the links of the ring, and both ways round take two hops.
TEST(CollectiveSeconds, AxesThatShareADimShareItsLinks) {
  const double port = kReached * 100e9;
  const Machine v5p("v5p-128", {{"outer", 2, 1}, {"inner", 2, 1}, {"fsdp", 16, 1}});
  const Group& outer = v5p.network.group({0});
  ASSERT_EQ(outer.size(), 1u);
  ASSERT_EQ(outer[0].lines.size(), 1u);
  EXPECT_EQ(outer[0].lines[0].stride, 2);
  EXPECT_DOUBLE_EQ(v5p.seconds(Kind::all_gather, {0}), 2e-6 + kBytes / port);
  EXPECT_DOUBLE_EQ(v5p.seconds(Kind::all_gather, {1}), 1e-6 + kBytes / port);
  // Both axes together are the whole ring.
  EXPECT_DOUBLE_EQ(v5p.seconds(Kind::all_gather, {0, 1}), 2e-6 + 3 * kBytes / (2 * port));
}

// Along a side of eight chips the middle axis has every second pair: the outer two together have chips 0, 1, 4 and 5 of it.
TEST(CollectiveSeconds, AGroupWithAnotherAxisInItsMiddleSpansItsWholeDim) {
  const double port = kReached * 100e9;
  const Machine v6e("v6e-64", {{"outer", 2, 1}, {"middle", 2, 1}, {"inner", 2, 1}, {"fsdp", 8, 1}});
  const Group& apart = v6e.network.group({0, 2});
  ASSERT_EQ(apart.size(), 1u);
  ASSERT_EQ(apart[0].lines.size(), 1u);
  EXPECT_EQ(apart[0].lines[0].devices, 4);
  EXPECT_EQ(apart[0].lines[0].stride, 2);
  EXPECT_DOUBLE_EQ(v6e.seconds(Kind::all_gather, {0, 2}), 6e-6 + 3 * kBytes / (port / 2));
  EXPECT_EQ(v6e.network.group({1, 2})[0].lines[0].stride, 1) << "these two adjoin";
  EXPECT_EQ(v6e.network.group({0, 1})[0].lines[0].stride, 2);
}

// A device has one port for each of its seven peers; a group of two uses one of them.
TEST(CollectiveSeconds, DirectLinksCarryByAsManyPortsAsThereArePeers) {
  const double port = 0.75 * 537.6e9 / 7;
  const Machine whole("mi355x-8", {{"expert", 8, 1}});
  const Machine pairs("mi355x-8", {{"fsdp", 4, 1}, {"tensor", 2, 1}});
  EXPECT_DOUBLE_EQ(whole.seconds(Kind::all_gather, {0}), 2e-6 + kBytes / port);
  EXPECT_DOUBLE_EQ(whole.seconds(Kind::all_to_all, {0}), 2e-6 + kBytes / 8 / port);
  EXPECT_DOUBLE_EQ(pairs.seconds(Kind::all_gather, {1}), 2e-6 + kBytes / port);
}

// A gather goes first between the nodes, where each device uses its own adapter, and then within the nodes.
TEST(CollectiveSeconds, GathersOverNodesGoLevelByLevel) {
  const Machine h100("h100-16", {{"data", 2, 1}, {"fsdp", 8, 1}});
  const double nvlink = kReached * 450e9, infiniband = kReached * 50e9;
  EXPECT_DOUBLE_EQ(h100.seconds(Kind::all_gather, {1}), 3 * 2e-6 + 7 * kBytes / nvlink);
  EXPECT_DOUBLE_EQ(h100.seconds(Kind::all_gather, {0}), 5e-6 + kBytes / infiniband);
  EXPECT_DOUBLE_EQ(h100.seconds(Kind::all_gather, {0, 1}),
                   5e-6 + kBytes / infiniband + 3 * 2e-6 + 7 * 2 * kBytes / nvlink);
  // Half of what is exchanged is for the other node.
  EXPECT_DOUBLE_EQ(h100.seconds(Kind::all_to_all, {0, 1}), 6e-6 + 0.5 * kBytes / infiniband);
}

TEST(CollectiveSeconds, SlicesReachEachOtherOverTheDataCenter) {
  const Machine slices("v6e-256", {{"data", 1, 32}, {"fsdp", 32, 1}, {"expert", 8, 1}}, 32);
  const double dcn = kReached * 12.5e9;
  EXPECT_DOUBLE_EQ(slices.seconds(Kind::reduce_scatter, {0}), 5 * 2e-5 + 31.0 / 32 * kBytes / dcn);
  EXPECT_EQ(devices_of(slices.network.group({0, 1, 2})), 32 * 256);
}

// On every machine, what must leave a device leaves through its ports, and a larger group is never cheaper for the same shard. With direct
// links it is not more expensive either, as each peer brings a port of its own.
TEST(CollectiveSeconds, NoGroupIsFasterThanItsPorts) {
  for (const std::string name : {"v5p-128", "v6e-64", "tpu7x-128", "h100-64", "mi355x-64"}) {
    const mesh::Topology target = mesh::find_topology(name, 1);
    double before = 0;
    for (std::int64_t size = 2; size <= 64; size *= 2) {
      const Machine machine(name, {{"rest", target.devices() / size, 1}, {"group", size, 1}});
      const double rate = target.chip.links.front().bytes_per_second;
      const auto n = static_cast<double>(size);
      const double gather = machine.seconds(Kind::all_gather, {1});
      EXPECT_GE(gather, (n - 1) * kBytes / rate) << name << " " << size;
      EXPECT_GE(machine.seconds(Kind::all_to_all, {1}), (n - 1) / n * kBytes / rate) << name << " " << size;
      EXPECT_GE(machine.seconds(Kind::reduce_scatter, {1}, n * kBytes), gather * (1 - 1e-9)) << name << " " << size;
      EXPECT_GE(gather, before * (1 - 1e-9)) << name << " " << size;
      before = gather;
    }
  }
}

TEST(Network, LaysEveryDeviceOfAnAxisSomewhere) {
  for (const std::string name : {"v5p-128", "v5p-256", "v6e-32", "tpu7x-64", "h100-64", "cpu-48"}) {
    const mesh::Topology target = mesh::find_topology(name, 1);
    for (const std::int64_t first : {2, 4, 8}) {
      const std::int64_t rest = target.devices() / first;
      const Machine machine(name, {{"a", first, 1}, {"b", 1, 1}, {"c", rest, 1}});
      EXPECT_EQ(devices_of(machine.network.group({0})), first) << name;
      EXPECT_EQ(devices_of(machine.network.group({2})), rest) << name;
      EXPECT_EQ(devices_of(machine.network.group({0, 1, 2})), target.devices()) << name;
    }
  }
}

TEST(WireBytes, AreThoseThatLeaveADevice) {
  EXPECT_EQ(wire_bytes(Kind::slice, 100, 4), 0);
  EXPECT_EQ(wire_bytes(Kind::all_gather, 100, 4), 300);
  EXPECT_EQ(wire_bytes(Kind::reduce_scatter, 100, 4), 75);
  EXPECT_EQ(wire_bytes(Kind::all_to_all, 100, 4), 75);
  EXPECT_EQ(wire_bytes(Kind::all_reduce, 100, 4), 150);
  EXPECT_EQ(wire_bytes(Kind::permute, 100, 4), 100);
}

// Between slices or nodes a device sends its own shard or its part of a sum, but not what the group exchanges within them.
TEST(WireBytes, OfTheFarthestLevelAreThoseThatCrossIt) {
  const Machine slices("v5e-64", {{"fsdp", 64, 2}}, 2);
  const Group& group = slices.network.group({0});
  ASSERT_EQ(devices_of(group), 128);
  EXPECT_DOUBLE_EQ(far_wire_bytes(Kind::all_gather, 100, group), 100);
  EXPECT_DOUBLE_EQ(far_wire_bytes(Kind::reduce_scatter, 12800, group), 100);
  EXPECT_DOUBLE_EQ(far_wire_bytes(Kind::all_reduce, 12800, group), 200);
  EXPECT_DOUBLE_EQ(far_wire_bytes(Kind::all_to_all, 12800, group), 6400);
  EXPECT_DOUBLE_EQ(far_wire_bytes(Kind::permute, 100, group), 100);
  EXPECT_EQ(far_wire_bytes(Kind::slice, 100, group), 0);
  EXPECT_EQ(far_wire_bytes(Kind::all_gather, 100, {}), 0);
}

// A switch, an adapter or the ports of a chip take as long as what comes to the busiest device; the middle of a torus takes as long as what
// comes to the half with that device.
TEST(CollectiveSeconds, AnAllToAllWaitsForTheDeviceThatTheMostComesTo) {
  const auto times = [](const Machine& machine, const AxisList& axes, double busiest) {
    const Group& group = machine.network.group(axes);
    const double latency = collective_seconds(Kind::all_to_all, 0, group);
    return (collective_seconds(Kind::all_to_all, kBytes, group, busiest) - latency) /
           (collective_seconds(Kind::all_to_all, kBytes, group) - latency);
  };
  const Machine node("h100-8", {{"expert", 8, 1}});
  EXPECT_NEAR(times(node, {0}, 1), 1, 1e-9);
  EXPECT_NEAR(times(node, {0}, 2.5), 2.5, 1e-9);
  // One of four devices receives twice the mean and the others two thirds of it: its half receives 1.33 times the mean, and its own ports
  // twice the mean.
  const Machine square("v5p-16", {{"fsdp", 2, 1}, {"expert", 4, 1}});
  EXPECT_NEAR(times(square, {1}, 2), 1.5, 1e-9) << "0.75 / 2 by its ports is more than 0.5 by the middle from 1.33 on";
  EXPECT_NEAR(times(square, {1}, 1.1), (1.1 + (4 - 1.1) / 3) / 2, 1e-9);
  const Machine closed("v6e-256", {{"fsdp", 16, 1}, {"expert", 16, 1}});
  EXPECT_NEAR(times(closed, {1}, 2), (2 + 7 * 14.0 / 15) / 8, 1e-9);
}

}  // namespace
}  // namespace moesh::cost
