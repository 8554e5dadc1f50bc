#include "run/workers.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace moesh::run {
namespace {

using Task = std::function<void(std::int64_t, std::int64_t)>;

// One call of parallel(): blocks are handed out by a counter.
struct Job {
  const Task* task = nullptr;
  std::int64_t count = 0;
  std::int64_t grain = 1;
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;

  void work() {
    while (true) {
      const std::int64_t begin = next.fetch_add(grain);
      if (begin >= count) return;
      try {
        (*task)(begin, std::min(begin + grain, count));
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    }
  }
};

}  // namespace

struct Workers::State {
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable done;
  Job* job = nullptr;
  std::uint64_t generation = 0;
  int busy = 0;
  bool stop = false;

  void loop() {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex);
    while (true) {
      wake.wait(lock, [&] { return stop || (job != nullptr && generation != seen); });
      if (stop) return;
      seen = generation;
      Job* mine = job;
      ++busy;
      lock.unlock();
      mine->work();
      lock.lock();
      if (--busy == 0) done.notify_one();
    }
  }
};

Workers::Workers(int threads) : state_(std::make_unique<State>()) {
  const int wanted = threads > 0 ? threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  // A machine that gives no more threads is worked on with those that it gave.
  try {
    for (int i = 1; i < wanted; ++i) state_->threads.emplace_back([this] { state_->loop(); });
  } catch (const std::system_error&) {
  }
}

Workers::~Workers() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->wake.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
}

int Workers::threads() const { return static_cast<int>(state_->threads.size()) + 1; }

void Workers::parallel(std::int64_t count, std::int64_t grain, const Task& task) {
  if (count <= 0) return;
  Job job;
  job.task = &task;
  job.count = count;
  job.grain = std::max<std::int64_t>(1, grain);
  const bool alone = count <= job.grain || state_->threads.empty();
  if (!alone) {
    const std::lock_guard lock(state_->mutex);
    state_->job = &job;
    ++state_->generation;
  }
  if (!alone) state_->wake.notify_all();
  job.work();
  if (!alone) {
    // No worker may hold the job when it goes out of scope.
    std::unique_lock lock(state_->mutex);
    state_->job = nullptr;
    state_->done.wait(lock, [&] { return state_->busy == 0; });
  }
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace moesh::run
