// Threads that everything shares that runs in this process.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace moesh::backend {

// A task that somebody else holds, called with a block [begin, end).
class Task {
 public:
  template <typename Call>
    requires(!std::is_same_v<Call, Task>)
  Task(const Call& call)  // NOLINT: a lambda is handed over as it is
      : call_(&call), run_([](const void* of, std::int64_t begin, std::int64_t end) { (*static_cast<const Call*>(of))(begin, end); }) {}
  void operator()(std::int64_t begin, std::int64_t end) const { run_(call_, begin, end); }

 private:
  const void* call_;
  void (*run_)(const void* call, std::int64_t begin, std::int64_t end);
};

class Workers {
 public:
  // How threads go over blocks: each along a share of its own, which is the same part of every call, so that what it made is still in its
  // caches; or all of them one after the other, as they are given, where blocks differ in size and the largest come first.
  enum class Order { by_shares, as_given };

  explicit Workers(int threads);  // 0: one for each core that this process may keep busy
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int threads() const;

  // Calls task(begin, end) for consecutive blocks of [0, count), each of `grain` but the last; returns when all are done.
  // Which thread takes a block is open, as they help each other; the blocks are not: a result that is combined block by block, in order,
  // does not depend on the number of threads. Of several exceptions that of the first block is rethrown here; blocks behind it may not
  // have been run.
  // May be called by several threads at once, and from inside a task: who calls works on the blocks, so nobody waits for a
  // block that no thread has begun.
  void parallel(std::int64_t count, std::int64_t grain, const Task& task, Order order = Order::by_shares);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace moesh::backend
