#include "backend/workers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <iterator>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/machine_cores.h"

namespace moesh::backend {
namespace {

// How a thread waits before it parks: it looks again at once, as the next kernel of a program is often a microsecond
// away, and then between yields, which cost others nothing, for a few times what waking a parked thread takes.
constexpr int kSpins = 400;
constexpr std::chrono::microseconds kYields{150};

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

template <typename Condition>
bool seen_before_parking(const Condition& condition) {
  for (int i = 0; i < kSpins; ++i) {
    if (condition()) return true;
    pause();
  }
  const auto end = std::chrono::steady_clock::now() + kYields;
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
    if (condition()) return true;
  }
  return false;
}

// One call of parallel(). Blocks are handed out in runs: a thread that goes along memory is faster by half than threads that meet there
// block by block, as each of them has the machine fetch what the other one is to read. Runs get shorter, so that threads end together.
class Job {
 public:
  Job(const Task& task, std::int64_t count, std::int64_t grain, int threads)
      : task_(task), count_(count), grain_(grain), runs_(grain == 1 ? 0 : kRunsOfThread * threads) {}

  std::int64_t blocks() const { return blocks_of(count_); }
  bool has_blocks() const { return next_.load(std::memory_order_relaxed) < count_; }

  void work() {
    std::int64_t begin = next_.load(std::memory_order_relaxed);
    while (begin < count_) {
      const std::int64_t end = std::min(begin + grain_ * run_of(blocks_of(count_ - begin)), count_);
      if (!next_.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
      run(begin, end);
      begin = next_.load(std::memory_order_relaxed);
    }
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

  std::atomic<int> helpers{0};  // that may be at work on a block; changed under the lock of the pool

 private:
  static constexpr std::int64_t kRunsOfThread = 4;

  std::int64_t blocks_of(std::int64_t count) const { return (count + grain_ - 1) / grain_; }
  // Of so many blocks that are left. Tasks with a grain of one may be of any size: they are handed out one by one.
  std::int64_t run_of(std::int64_t left) const { return runs_ == 0 ? 1 : std::max<std::int64_t>(1, left / runs_); }

  void run(std::int64_t begin, std::int64_t end) {
    for (; begin < end; begin += grain_) {
      try {
        task_(begin, std::min(begin + grain_, end));
      } catch (...) {
        return note_error(begin);
      }
    }
  }

  // Blocks are handed out in order, and a run goes on to its end or to its first error, so those before the first that throws are all
  // begun, whoever throws earlier in time.
  void note_error(std::int64_t begin) {
    next_.store(count_, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    if (error_ && error_begin_ < begin) return;
    error_ = std::current_exception();
    error_begin_ = begin;
  }

  const Task& task_;
  const std::int64_t count_;
  const std::int64_t grain_;
  const std::int64_t runs_;
  std::atomic<std::int64_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr error_;
  std::int64_t error_begin_ = 0;
};

}  // namespace

class Workers::State {
 public:
  explicit State(int threads) {
    parked_.reserve(static_cast<std::size_t>(threads));  // so that a thread needs no memory to park
    // A machine that gives no more threads is worked on with those that it gave.
    try {
      for (int i = 1; i < threads; ++i) {
        Worker& worker = workers_.emplace_back();
        worker.thread = std::thread([this, &worker] { loop(worker); });
      }
    } catch (const std::system_error&) {
      workers_.pop_back();
    }
  }

  ~State() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      ++posted_;
    }
    for (Worker& worker : workers_) worker.wake.notify_one();
    for (Worker& worker : workers_) worker.thread.join();
  }

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  void run(Job& job) {
    post(job);
    job.work();
    withdraw(job);
  }

 private:
  struct Worker {
    std::thread thread;
    std::condition_variable wake;
    bool is_parked = false;
    ThreadCores cores = {};  // known while it is parked
  };

  void post(Job& job) {
    std::int64_t sleepers = 0;
    {
      const std::lock_guard lock(mutex_);
      open_.push_back(&job);
      ++posted_;
      sleepers = std::ssize(parked_);
    }
    for (std::int64_t i = 0; i < std::min(sleepers, job.blocks() - 1); ++i) wake_one();
  }

  // Some machines wake a thread on the core of whoever wakes it, where it waits for milliseconds until that one has had its share: so it
  // is sent to another one first.
  void wake_one() {
    Worker* worker = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (parked_.empty()) return;
      worker = parked_.back();
      parked_.pop_back();
      worker->is_parked = false;
      worker->cores.keep_off(current_core());
    }
    worker->wake.notify_one();
  }

  // When it returns, no thread holds the job.
  void withdraw(Job& job) {
    {
      const std::lock_guard lock(mutex_);
      open_.erase(std::find(open_.begin(), open_.end(), &job));
    }
    const auto is_done = [&] { return job.helpers.load(std::memory_order_acquire) == 0; };
    if (seen_before_parking(is_done)) return;
    std::unique_lock lock(mutex_);
    done_.wait(lock, is_done);
  }

  // The newest job with blocks left: what is begun within another one is needed first.
  Job* join_one() {
    const auto found = std::find_if(open_.rbegin(), open_.rend(), [](const Job* job) { return job->has_blocks(); });
    if (found == open_.rend()) return nullptr;
    (*found)->helpers.fetch_add(1, std::memory_order_relaxed);
    return *found;
  }

  void loop(Worker& self) {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      if (Job* job = join_one()) {
        lock.unlock();
        job->work();
        lock.lock();
        // The job may be gone as soon as nobody helps.
        if (job->helpers.fetch_sub(1, std::memory_order_acq_rel) == 1) done_.notify_all();
        continue;
      }
      const std::uint64_t seen = posted_;
      const auto has_more = [&] { return posted_.load(std::memory_order_relaxed) != seen; };
      lock.unlock();
      seen_before_parking(has_more);
      lock.lock();
      if (!has_more()) park(self, lock);
    }
  }

  void park(Worker& self, std::unique_lock<std::mutex>& lock) {
    self.cores = ThreadCores::of_caller();
    self.is_parked = true;
    parked_.push_back(&self);
    self.wake.wait(lock, [&] { return !self.is_parked || stop_; });
    lock.unlock();
    self.cores.restore();
    lock.lock();
  }

  std::mutex mutex_;
  std::condition_variable done_;          // callers, when a job has lost its last helper
  std::vector<Job*> open_;                // oldest first
  std::atomic<std::uint64_t> posted_{0};  // grows with every job
  std::vector<Worker*> parked_;           // the last to park is the first to be woken
  bool stop_ = false;
  std::deque<Worker> workers_;
};

Workers::Workers(int threads) : state_(std::make_unique<State>(threads > 0 ? threads : usable_cores())) {}

Workers::~Workers() = default;

int Workers::threads() const { return state_->threads(); }

void Workers::parallel(std::int64_t count, std::int64_t grain, const Task& task) {
  if (count <= 0) return;
  const std::int64_t block = std::max<std::int64_t>(1, grain);
  Job job(task, count, block, threads());
  if (count <= block || threads() == 1) {
    job.work();
  } else {
    state_->run(job);
  }
  job.rethrow();
}

}  // namespace moesh::backend
