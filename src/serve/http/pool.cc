#include "serve/http/pool.h"

#include <exception>
#include <utility>

namespace moesh::serve {

Pool::Pool(std::int64_t most) : most_(most) { threads_.emplace_back([this] { serve(); }); }

bool Pool::run(std::function<void()> work) {
  std::unique_lock lock(mutex_);
  const auto is_free = [&] { return busy_ < static_cast<std::int64_t>(threads_.size()) || add_thread(); };
  taken_.wait(lock, [&] { return is_stopping_ || (!work_ && is_free()); });
  if (is_stopping_) return false;
  work_ = std::move(work);
  ++busy_;
  given_.notify_one();
  return true;
}

// If the system cannot create another thread, the pool keeps to those that it has.
bool Pool::add_thread() {
  if (static_cast<std::int64_t>(threads_.size()) >= most_) return false;
  try {
    threads_.emplace_back([this] { serve(); });
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

void Pool::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    given_.wait(lock, [&] { return is_stopping_ || work_; });
    if (!work_) return;
    const std::function<void()> work = std::exchange(work_, nullptr);
    taken_.notify_one();
    lock.unlock();
    work();
    lock.lock();
    --busy_;
    taken_.notify_one();
  }
}

void Pool::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  given_.notify_all();
  taken_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

std::int64_t Pool::busy() const {
  const std::lock_guard lock(mutex_);
  return busy_;
}

}  // namespace moesh::serve
