// Tests of the thread pool: every block of work runs once, whichever thread calls.
#include "backend/workers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

namespace moesh::backend {
namespace {

std::int64_t sum_to(Workers& workers, std::int64_t count, std::int64_t grain) {
  std::atomic<std::int64_t> sum{0};
  workers.parallel(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) sum += i;
  });
  return sum;
}

TEST(Workers, HandOutTheSameBlocksOnAnyNumberOfThreads) {
  using Blocks = std::multiset<std::pair<std::int64_t, std::int64_t>>;
  for (const int threads : {1, 2, 5}) {
    Workers workers(threads);
    Blocks blocks;
    std::mutex mutex;
    workers.parallel(10, 4, [&](std::int64_t begin, std::int64_t end) {
      const std::lock_guard lock(mutex);
      blocks.emplace(begin, end);
    });
    EXPECT_EQ(blocks, (Blocks{{0, 4}, {4, 8}, {8, 10}})) << threads;
    EXPECT_EQ(workers.threads(), threads);
  }
}

// The first block that each thread takes, with all threads taking part.
std::set<std::int64_t> first_blocks(Workers& workers, std::int64_t count, Workers::Order order) {
  std::map<std::thread::id, std::int64_t> first;
  std::mutex mutex;
  workers.parallel(
      count, 1,
      [&](std::int64_t begin, std::int64_t) {
        std::unique_lock lock(mutex);
        if (!first.emplace(std::this_thread::get_id(), begin).second) return;
        while (std::ssize(first) < workers.threads()) {
          lock.unlock();
          std::this_thread::yield();
          lock.lock();
        }
      },
      order);
  std::set<std::int64_t> blocks;
  for (const auto& [thread, block] : first) blocks.insert(block);
  return blocks;
}

// A thread starts with the same share in every call, so that it finds in its caches what it computed in the previous call.
TEST(Workers, GiveEachThreadItsOwnShareFirst) {
  Workers workers(4);
  for (int round = 0; round < 50; ++round) {
    EXPECT_EQ(first_blocks(workers, 40, Workers::Order::by_shares), (std::set<std::int64_t>{0, 10, 20, 30}));
    EXPECT_EQ(first_blocks(workers, 41, Workers::Order::as_given), (std::set<std::int64_t>{0, 1, 2, 3}));
  }
}

// Threads that are done take blocks from other threads' shares: a thread held up in its first block leaves the rest of its share to them.
TEST(Workers, HelpWithOthersShares) {
  Workers workers(3);
  std::atomic<std::int64_t> done{0};
  workers.parallel(700, 1, [&](std::int64_t begin, std::int64_t) {
    while (begin == 0 && done < 699) std::this_thread::yield();
    ++done;
  });
  EXPECT_EQ(done, 700);
}

// In a nested call that no other thread helps with, the caller goes through every share in ascending order of memory.
TEST(Workers, GoAlongSharesThatAreLeftToThem) {
  Workers workers(2);
  std::atomic<int> begun{0};
  std::atomic<bool> is_done{false};
  std::vector<std::int64_t> order;
  workers.parallel(2, 1, [&](std::int64_t, std::int64_t) {
    if (begun++ > 0) {  // the other thread
      while (!is_done) std::this_thread::yield();
      return;
    }
    while (begun < 2) std::this_thread::yield();
    workers.parallel(40, 1, [&](std::int64_t begin, std::int64_t) { order.push_back(begin); });
    is_done = true;
  });
  std::vector<std::int64_t> sorted(40);
  std::iota(sorted.begin(), sorted.end(), 0);
  std::rotate(order.begin(), std::find(order.begin(), order.end(), 0), order.end());  // the thread's own share came first
  EXPECT_EQ(order, sorted);
}

TEST(Workers, DoNothingForNothing) {
  Workers workers(2);
  workers.parallel(0, 1, [](std::int64_t, std::int64_t) { FAIL(); });
  EXPECT_EQ(sum_to(workers, 5, 0), 10) << "a grain of none is one of one";
}

// Several threads call at once, and tasks make nested calls; each call gets the sum of its own blocks.
TEST(Workers, ServeManyCallersAndTasksThatCallAgain) {
  for (const int threads : {1, 2, 3, 8}) {
    Workers workers(threads);
    std::vector<std::thread> callers;
    std::atomic<int> wrong{0};
    for (std::int64_t caller = 0; caller < 4; ++caller) {
      callers.emplace_back([&, caller] {
        for (std::int64_t round = 0; round < 300; ++round) {
          const std::int64_t count = 1 + (round * 7 + caller) % 50;
          if (sum_to(workers, count, 1 + round % 3) != count * (count - 1) / 2) ++wrong;
          std::atomic<std::int64_t> nested{0};
          workers.parallel(4, 1, [&](std::int64_t, std::int64_t) {
            workers.parallel(3, 1, [&](std::int64_t, std::int64_t) { nested += sum_to(workers, count, 5); });
          });
          if (nested != 12 * (count * (count - 1) / 2)) ++wrong;
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(wrong, 0) << threads << " threads";
  }
}

// A parked thread is moved to another core when it is woken. While it works, it may run on all cores again.
TEST(Workers, AreFreeToRunAnywhereAfterTheyWereParked) {
  const auto cores = [] {
    cpu_set_t of_thread;
    CPU_ZERO(&of_thread);
    EXPECT_EQ(sched_getaffinity(0, sizeof of_thread, &of_thread), 0);
    return CPU_COUNT(&of_thread);
  };
  Workers workers(4);
  const int before = cores();
  std::atomic<int> fewer{0};
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    workers.parallel(8, 1, [&](std::int64_t, std::int64_t) {
      if (cores() != before) ++fewer;
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    });
  }
  EXPECT_EQ(fewer, 0);
}

TEST(Workers, RethrowToTheCallerWhoseTaskThrew) {
  Workers workers(3);
  std::atomic<int> wrong{0};
  const auto call = [&](const std::string& name, bool throws) {
    for (int round = 0; round < 300; ++round) {
      std::string caught;
      try {
        workers.parallel(8, 1, [&](std::int64_t begin, std::int64_t) {
          if (throws && begin == 5) throw std::runtime_error(name);
        });
      } catch (const std::runtime_error& error) {
        caught = error.what();
      }
      if (caught != (throws ? name : "")) ++wrong;
    }
  };
  std::vector<std::thread> callers;
  callers.emplace_back(call, "first", true);
  callers.emplace_back(call, "second", true);
  callers.emplace_back(call, "third", false);
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Workers, RethrowWhatTheFirstBlockThrew) {
  Workers workers(4);
  for (int round = 0; round < 300; ++round) {
    std::atomic<int> begun{0};
    try {
      workers.parallel(1000, 1, [&](std::int64_t begin, std::int64_t) {
        ++begun;
        if (begin >= 2) throw std::runtime_error(std::to_string(begin));
      });
      FAIL();
    } catch (const std::runtime_error& error) {
      ASSERT_STREQ(error.what(), "2");
    }
    ASSERT_LT(begun, 100) << "blocks are handed out after one has thrown";
  }
}

}  // namespace
}  // namespace moesh::backend
