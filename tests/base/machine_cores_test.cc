// How many cores there are to use, by the files in which a kernel tells it.
#include "base/machine_cores.h"

#include <gtest/gtest.h>

#include "tests/base/machine_files.h"

namespace moesh {
namespace {

struct MachineWithCores : test::MachineFiles {
  int cores() const { return usable_cores(root()); }
};

TEST(UsableCores, AreThoseToRunOnWithoutALimit) {
  MachineWithCores machine;
  const int all = machine.cores();
  EXPECT_GE(all, 1);
  machine.put("/proc/self/cgroup", "0::/a\n");
  machine.put("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(machine.cores(), all);
  machine.put("/sys/fs/cgroup/a/cpu.max", "999900000 100000\n");
  EXPECT_EQ(machine.cores(), all) << "a share of more cores than there are";
  machine.put("/sys/fs/cgroup/a/cpu.max", "much\n");
  EXPECT_EQ(machine.cores(), all);
}

TEST(UsableCores, AreAContainersShareRoundedUp) {
  MachineWithCores machine;
  machine.put("/proc/self/cgroup", "0::/a/b\n");
  machine.put("/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(machine.cores(), 1);
  machine.put("/sys/fs/cgroup/a/b/cpu.max", "100001 100000\n");
  EXPECT_EQ(machine.cores(), std::min(2, usable_cores()));
  machine.put("/sys/fs/cgroup/a/cpu.max", "100000 100000\n");
  EXPECT_EQ(machine.cores(), 1) << "the group around it has less";
}

TEST(UsableCores, AreUnderTheShareOfTheFirstVersion) {
  MachineWithCores machine;
  machine.put("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/1f\n");
  machine.put("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  machine.put("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(machine.cores(), usable_cores());
  machine.put("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "90000\n");
  EXPECT_EQ(machine.cores(), 1);
}

}  // namespace
}  // namespace moesh
