#include "backend/workers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <iterator>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "backend/scratch_list.h"
#include "base/machine_cores.h"
#include "base/rounding.h"

namespace moesh::backend {
namespace {

// How a thread waits before it parks. First it spins, as the next kernel of a program is often a microsecond away. Then it yields between
// looks, which costs other threads nothing, for a few times as long as it takes to wake a parked thread.
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

// The number of a pool's thread; 0 for any other caller.
thread_local int number_of_thread = 0;

// Blocks [begin, end).
struct Blocks {
  std::int32_t begin, end;
  std::int32_t size() const { return end - begin; }
};

// The blocks left in a thread's share. Its owner takes blocks from the front and other threads take them from the end. Until the owner has
// begun, other threads take from the front too, as it may never begin: in a call from inside a task, other threads mostly have tasks of
// their own. Each takes a run of consecutive blocks: if threads took alternate blocks, the hardware would prefetch for one what another is
// to read; a run is faster by half. Runs get shorter, so that threads end together.
class alignas(64) Share {
 public:
  void set(Blocks all) { left_.store(all, std::memory_order_relaxed); }
  bool has_blocks() const { return left_.load(std::memory_order_relaxed).size() > 0; }

  Blocks take(bool is_owner, bool in_order, bool in_runs) {
    if (is_owner) is_begun_.store(true, std::memory_order_relaxed);
    const bool from_front = is_owner || in_order || !is_begun_.load(std::memory_order_relaxed);
    constexpr std::int32_t kFromFront = 4, kFromEnd = 8;  // a run is what is left divided by this
    Blocks before = left_.load(std::memory_order_relaxed);
    while (before.size() > 0) {
      const std::int32_t run = in_runs ? std::max(1, before.size() / (from_front ? kFromFront : kFromEnd)) : 1;
      const std::int32_t cut = from_front ? before.begin + run : before.end - run;
      const Blocks front{before.begin, cut}, rest{cut, before.end};
      if (left_.compare_exchange_weak(before, from_front ? rest : front, std::memory_order_relaxed)) return from_front ? front : rest;
    }
    return before;
  }

 private:
  std::atomic<Blocks> left_;
  std::atomic<bool> is_begun_{false};  // by its owner
};

// One call of parallel().
class Job {
 public:
  Job(const Task& task, std::int64_t count, std::int64_t grain, std::int64_t shares)
      : task_(task),
        count_(count),
        grain_(std::max(grain, count / std::numeric_limits<std::int32_t>::max() + 1)),
        end_(blocks()),
        shares_(static_cast<std::size_t>(std::min(shares, blocks()))) {
    const auto place = [&](std::int64_t share) { return static_cast<std::int32_t>(share * blocks() / std::ssize(shares_)); };
    for (std::int64_t i = 0; i < std::ssize(shares_); ++i) shares_[static_cast<std::size_t>(i)].set({place(i), place(i + 1)});
  }

  std::int64_t blocks() const { return divide_up(count_, grain_); }
  bool has_blocks() const {
    return std::any_of(shares_.begin(), shares_.end(), [](const Share& share) { return share.has_blocks(); });
  }

  void work() {
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      Share& share = shares_[(static_cast<std::size_t>(number_of_thread) + i) % shares_.size()];
      for (Blocks run = take(share, i == 0); run.size() > 0; run = take(share, i == 0)) work_on(run);
    }
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

  std::atomic<int> helpers{0};  // threads that may be working on a block; changed under the pool's lock

 private:
  // Blocks of a single item may differ greatly in size, so they are taken one by one. After one has thrown, the blocks before it still run,
  // in order.
  Blocks take(Share& share, bool is_owner) const {
    const bool has_thrown = end_.load(std::memory_order_relaxed) < blocks();
    return share.take(is_owner, has_thrown, grain_ > 1);
  }

  void work_on(Blocks run) {
    for (std::int64_t block = run.begin; block < run.end && block < end_.load(std::memory_order_relaxed); ++block) {
      try {
        task_(block * grain_, std::min((block + 1) * grain_, count_));
      } catch (...) {
        note_error(block);
      }
    }
  }

  void note_error(std::int64_t block) {
    const std::lock_guard lock(mutex_);
    if (block >= end_.load(std::memory_order_relaxed)) return;
    end_.store(block, std::memory_order_relaxed);
    error_ = std::current_exception();
  }

  const Task& task_;
  const std::int64_t count_;
  const std::int64_t grain_;
  std::atomic<std::int64_t> end_;  // the first block that has thrown, or the number of blocks; blocks from here on are skipped
  ScratchList<Share> shares_;
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

class Workers::State {
 public:
  explicit State(int threads) {
    parked_.reserve(static_cast<std::size_t>(threads));  // so that a thread allocates nothing when it parks
    // If the system refuses more threads, the pool works with those that it got.
    try {
      for (int i = 1; i < threads; ++i) {
        Worker& worker = workers_.emplace_back();
        worker.thread = std::thread([this, &worker, i] {
          number_of_thread = i;
          loop(worker);
        });
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
    ThreadCores cores = {};  // valid while it is parked
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

  // Some systems wake a thread on the core of the thread that wakes it, where it waits for milliseconds until that thread has used up its
  // time slice. So the thread is moved to another core first.
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

  // After this, no thread uses the job.
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

  // The newest job with blocks left, as a job that was started inside another one is needed first.
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
        // The job may be destroyed as soon as it has no helpers.
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
  std::condition_variable done_;          // wakes callers when a job has lost its last helper
  std::vector<Job*> open_;                // oldest first
  std::atomic<std::uint64_t> posted_{0};  // grows with every job
  std::vector<Worker*> parked_;           // the last to park is the first to be woken
  bool stop_ = false;
  std::deque<Worker> workers_;
};

Workers::Workers(int threads) : state_(std::make_unique<State>(threads > 0 ? threads : usable_cores())) {}

Workers::~Workers() = default;

int Workers::threads() const { return state_->threads(); }

void Workers::parallel(std::int64_t count, std::int64_t grain, const Task& task, Order order) {
  if (count <= 0) return;
  const std::int64_t block = std::max<std::int64_t>(1, grain);
  Job job(task, count, block, order == Order::by_shares ? threads() : 1);
  if (count <= block || threads() == 1) {
    job.work();
  } else {
    state_->run(job);
  }
  job.rethrow();
}

}  // namespace moesh::backend
