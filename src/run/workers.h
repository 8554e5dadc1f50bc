// One thread per core, shared by everything that runs in this process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace moesh::run {

class Workers {
 public:
  explicit Workers(int threads);  // 0: one per core
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int threads() const;

  // Calls task(begin, end) for consecutive blocks of [0, count), each of `grain` but the last; returns when all are done.
  // Which thread takes a block is open, the blocks are not: a result that is combined block by block, in order, does not
  // depend on the number of threads. A block that throws is the last to be handed out; of several exceptions that of the
  // first block is rethrown here.
  // May be called by several threads at once, and from inside a task: who calls works on the blocks, so nobody waits for a
  // block that no thread has begun.
  void parallel(std::int64_t count, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& task);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace moesh::run
