// A thread pool whose threads are created as work comes, up to a limit, and kept.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace moesh::serve {

class Pool {
 public:
  explicit Pool(std::int64_t most);
  ~Pool() { stop(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Waits until a thread is free and hands it the work. Returns false, with the work left undone, if the pool stops meanwhile.
  bool run(std::function<void()> work);
  // Returns after all running work has ended.
  void stop();
  std::int64_t busy() const;

 private:
  void serve();
  bool add_thread();

  const std::int64_t most_;
  mutable std::mutex mutex_;
  std::condition_variable given_, taken_;
  std::function<void()> work_;  // work that no thread has taken yet
  std::vector<std::thread> threads_;
  std::int64_t busy_ = 0;
  bool is_stopping_ = false;
};

}  // namespace moesh::serve
