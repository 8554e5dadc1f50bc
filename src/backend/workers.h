// The threads that all work of this process shares.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace moesh::backend {

// A non-owning reference to a task, which is called with a block [begin, end).
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
  // How threads divide the blocks. by_shares: each starts with a share of its own, the same part of the range in every call, so that data
  // it produced earlier is still in its caches. as_given: all take the next block in order, for blocks that differ in size and come largest
  // first.
  enum class Order { by_shares, as_given };

  explicit Workers(int threads);  // 0: one for each core that this process may keep busy
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int threads() const;

  // Calls task(begin, end) for consecutive blocks of [0, count), each of `grain` elements but the last, and returns when all are done.
  // Which thread takes a block is open, as threads help each other, but the blocks are fixed: a result that is combined block by block, in
  // order, does not depend on the number of threads. If several blocks throw, the exception of the first of them is rethrown here; blocks
  // after it may not have been run.
  // May be called by several threads at once, and from inside a task: the caller works on the blocks itself, so no thread waits for a block
  // that no thread has begun.
  void parallel(std::int64_t count, std::int64_t grain, const Task& task, Order order = Order::by_shares);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace moesh::backend
