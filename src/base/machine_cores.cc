#include "base/machine_cores.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <thread>

#include <unistd.h>

#include "base/control_groups.h"

namespace moesh {
namespace {

int cores_to_run_on() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // This fails if there are more cores than the set has room for.
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

// The time on all cores that a group may use in a period, and the period: "200000 100000", or "max 100000".
struct Share {
  std::int64_t time = -1;  // -1: no limit
  std::int64_t period = 0;
};

Share share_of(const ControlGroup& group) {
  if (group.is_first_version) {
    return {number_in(group.folder + "/cpu.cfs_quota_us").value_or(-1), number_in(group.folder + "/cpu.cfs_period_us").value_or(0)};
  }
  Share share;
  std::ifstream file(group.folder + "/cpu.max");
  if (!(file >> share.time >> share.period)) return {};
  return share;
}

}  // namespace

int usable_cores(const std::string& root) {
  std::int64_t cores = cores_to_run_on();
  for_control_groups(root, "cpu", [&](const ControlGroup& group) {
    const Share share = share_of(group);
    if (share.time <= 0 || share.period <= 0) return;
    cores = std::min(cores, std::max<std::int64_t>(1, share.time / share.period + (share.time % share.period != 0 ? 1 : 0)));
  });
  return static_cast<int>(cores);
}

int current_core() { return sched_getcpu(); }

ThreadCores ThreadCores::of_caller() {
  ThreadCores cores;
  cores.thread_ = gettid();
  CPU_ZERO(&cores.all_);
  // This fails if there are more cores than the set has room for; then the thread is never moved.
  if (sched_getaffinity(0, sizeof cores.all_, &cores.all_) != 0) CPU_ZERO(&cores.all_);
  return cores;
}

void ThreadCores::keep_off(int core) const {
  if (core < 0 || core >= CPU_SETSIZE) return;
  cpu_set_t others = all_;
  CPU_CLR(static_cast<std::size_t>(core), &others);
  if (CPU_COUNT(&others) > 0) sched_setaffinity(thread_, sizeof others, &others);
}

void ThreadCores::restore() const {
  if (CPU_COUNT(&all_) > 0) sched_setaffinity(thread_, sizeof all_, &all_);
}

}  // namespace moesh
