// Free memory according to the files in which a kernel reports it.
#include "base/machine_memory.h"

#include <gtest/gtest.h>

#include "tests/base/machine_files.h"

namespace moesh {
namespace {

struct MachineWithMemory : test::MachineFiles {
  FreeMemory free() const { return free_memory(root()); }
  std::string path(const std::string& of) const { return root() + of; }
};

constexpr const char* kMeminfo = "MemTotal:       32000 kB\nMemFree:         4000 kB\nMemAvailable:    8000 kB\n";
constexpr std::int64_t kAvailable = 8000 * 1024;

TEST(FreeMemory, IsTheMachinesWithoutAContainer) {
  MachineWithMemory machine;
  EXPECT_EQ(machine.free().where, "") << "nothing is known";
  machine.put("/proc/meminfo", kMeminfo);
  EXPECT_EQ(machine.free().bytes, kAvailable);
  EXPECT_EQ(machine.free().where, "the machine");
  machine.put("/proc/self/cgroup", "0::/user.slice\n");
  machine.put("/sys/fs/cgroup/user.slice/memory.max", "max\n");
  machine.put("/sys/fs/cgroup/user.slice/memory.current", "1000\n");
  EXPECT_EQ(machine.free().where, "the machine") << "a group without a limit";
}

// File caches in memory.stat count as free: the kernel reclaims them before it kills a process.
TEST(FreeMemory, IsUnderTheLimitOfAContainer) {
  MachineWithMemory machine;
  machine.put("/proc/meminfo", kMeminfo);
  machine.put("/proc/self/cgroup", "0::/a/b\n");
  machine.put("/sys/fs/cgroup/a/b/memory.max", "5000000\n");
  machine.put("/sys/fs/cgroup/a/b/memory.current", "1000000\n");
  EXPECT_EQ(machine.free().bytes, 4000000);
  EXPECT_EQ(machine.free().where, machine.path("/sys/fs/cgroup/a/b/memory.max"));
  machine.put("/sys/fs/cgroup/a/b/memory.stat", "anon 600000\ninactive_file 300000\nactive_file 50000\n");
  EXPECT_EQ(machine.free().bytes, 4350000);
}

TEST(FreeMemory, IsUnderTheNearestLimitOfTheGroupsAround) {
  MachineWithMemory machine;
  machine.put("/proc/meminfo", kMeminfo);
  machine.put("/proc/self/cgroup", "0::/a/b/c\n");
  machine.put("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
  machine.put("/sys/fs/cgroup/a/memory.max", "3000000\n");
  machine.put("/sys/fs/cgroup/a/memory.current", "3500000\n");
  EXPECT_EQ(machine.free().bytes, 0) << "a group may be over its limit for a while";
  machine.put("/sys/fs/cgroup/a/memory.current", "2500000\n");
  EXPECT_EQ(machine.free().bytes, 500000);
  machine.put("/sys/fs/cgroup/memory.max", "400000\n");
  machine.put("/sys/fs/cgroup/memory.current", "100000\n");
  EXPECT_EQ(machine.free().bytes, 300000) << "in a container the mount is the group";
}

TEST(FreeMemory, IsUnderTheLimitsOfTheFirstVersion) {
  MachineWithMemory machine;
  machine.put("/proc/meminfo", kMeminfo);
  machine.put("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/1f\n0::/\n");
  machine.put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "6000000\n");
  machine.put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n");
  machine.put("/sys/fs/cgroup/memory/memory.stat", "cache 700\ninactive_file 1\ntotal_inactive_file 200000\n");
  EXPECT_EQ(machine.free().bytes, 5200000);
  EXPECT_EQ(machine.free().where, machine.path("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  machine.put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(machine.free().where, "the machine");
}

TEST(ResidentMemory, GrowsWithWhatIsTouched) {
  const std::int64_t before = resident_memory();
  EXPECT_GT(before, 1 << 20);
  const std::vector<char> touched(64 << 20, 1);
  EXPECT_GT(resident_memory() - before, 60 << 20);
  EXPECT_EQ(touched[1 << 20], 1);
}

}  // namespace
}  // namespace moesh
