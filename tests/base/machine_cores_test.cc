// The number of usable cores according to the files in which a kernel reports it, and keeping threads off one core.
#include "base/machine_cores.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include <gtest/gtest.h>
#include <sched.h>

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

cpu_set_t cores_of_this_thread() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  EXPECT_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
  return cores;
}

TEST(ThreadCores, KeepsAnotherThreadOffACoreAndGivesItBack) {
  std::atomic<bool> is_moved{false}, is_seen{false};
  std::promise<ThreadCores> promise;
  std::thread thread([&] {
    const cpu_set_t before = cores_of_this_thread();
    promise.set_value(ThreadCores::of_caller());
    while (!is_moved) std::this_thread::yield();
    const cpu_set_t moved = cores_of_this_thread();
    EXPECT_EQ(CPU_COUNT(&moved), std::max(1, CPU_COUNT(&before) - 1)) << "the only core stays";
    is_seen = true;
    while (is_moved) std::this_thread::yield();
    const cpu_set_t after = cores_of_this_thread();
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  });
  const ThreadCores cores = promise.get_future().get();
  cores.keep_off(current_core());
  is_moved = true;
  while (!is_seen) std::this_thread::yield();
  cores.restore();
  is_moved = false;
  thread.join();
}

TEST(ThreadCores, KnowsNoCoreThatIsNone) {
  const cpu_set_t before = cores_of_this_thread();
  const ThreadCores cores = ThreadCores::of_caller();
  for (const int core : {-1, CPU_SETSIZE}) {
    cores.keep_off(core);
    const cpu_set_t after = cores_of_this_thread();
    EXPECT_TRUE(CPU_EQUAL(&before, &after)) << core;
  }
}

TEST(ThreadCores, StayWhereThereIsNoOther) {
  std::thread([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    const int core = current_core();
    CPU_SET(static_cast<std::size_t>(core), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    const ThreadCores cores = ThreadCores::of_caller();
    cores.keep_off(core);
    EXPECT_EQ(current_core(), core);
    cores.restore();
    const cpu_set_t after = cores_of_this_thread();
    EXPECT_TRUE(CPU_EQUAL(&one, &after));
  }).join();
}

}  // namespace
}  // namespace moesh
