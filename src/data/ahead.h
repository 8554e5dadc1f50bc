// Numbered items that are asked for one after the other, made ahead of time by threads.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace moesh::data {

template <typename Made>
class Ahead {
 public:
  // `threads` threads call `make` for the number that was asked for last and those after it, `window` numbers in all. Without threads, the
  // caller makes the item that it asks for.
  Ahead(std::function<Made(std::int64_t)> make, int threads, std::int64_t window)
      : make_(std::move(make)), count_(threads), window_(window) {}
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  ~Ahead() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  // Waits until the item is made. If making it failed, the error is thrown here. The threads start with the first call.
  std::shared_ptr<const Made> at(std::int64_t number) {
    const auto begin = Clock::now();
    std::unique_lock lock(mutex_);
    move_to(number);
    while (std::cmp_less(threads_.size(), count_)) threads_.emplace_back([this] { work(); });
    const std::shared_ptr<Slot> slot = slots_.at(number);
    if (count_ == 0 && !slot->is_taken) make(lock, number, *slot);
    changed_.notify_all();
    changed_.wait(lock, [&] { return slot->made || slot->error; });
    waited_ += seconds_since(begin);
    if (slot->error) std::rethrow_exception(slot->error);
    return slot->made;
  }

  double waited() const { return waited_; }  // seconds in total

 private:
  struct Slot {
    bool is_taken = false;
    std::shared_ptr<const Made> made;
    std::exception_ptr error;
  };

  void move_to(std::int64_t number) {
    std::erase_if(slots_, [&](const auto& entry) { return entry.first < number || entry.first >= number + window_; });
    for (std::int64_t i = number; i < number + window_; ++i) {
      if (!slots_.contains(i)) slots_.emplace(i, std::make_shared<Slot>());
    }
  }

  auto next() const {
    return std::find_if(slots_.begin(), slots_.end(), [](const auto& entry) { return !entry.second->is_taken; });
  }

  // If the number is no longer asked for, what is made is dropped with its slot.
  void make(std::unique_lock<std::mutex>& lock, std::int64_t number, Slot& slot) {
    slot.is_taken = true;
    lock.unlock();
    std::shared_ptr<const Made> made;
    std::exception_ptr error;
    try {
      made = std::make_shared<const Made>(make_(number));
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    slot.made = std::move(made);
    slot.error = error;
    changed_.notify_all();
  }

  void work() {
    for (std::unique_lock lock(mutex_);;) {
      changed_.wait(lock, [&] { return ends_ || next() != slots_.end(); });
      if (ends_) return;
      const auto [number, slot] = *next();
      make(lock, number, *slot);
    }
  }

  std::function<Made(std::int64_t)> make_;
  int count_;
  std::int64_t window_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::map<std::int64_t, std::shared_ptr<Slot>> slots_;
  double waited_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace moesh::data
