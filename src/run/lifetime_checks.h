// For tests: what is read outside its life is found. A buffer that is not needed holds NaN, and AddressSanitizer, where it is
// built in, lets nobody touch it, nor the gaps between buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/arena.h"
#include "plan/plan.h"

namespace moesh::run {

class LifetimeChecks {
 public:
  static constexpr std::int64_t kGap = 64;  // bytes behind each buffer

  // `begins` and `bytes` of each buffer in this process; those of state are not watched. Fills them all.
  LifetimeChecks(const plan::Plan& plan, std::vector<std::byte*> begins, std::vector<std::int64_t> bytes);
  ~LifetimeChecks();
  LifetimeChecks(const LifetimeChecks&) = delete;
  LifetimeChecks& operator=(const LifetimeChecks&) = delete;

  void before(plan::InstructionId id) const;  // opens what this instruction is the first to need
  void after(plan::InstructionId id) const;   // closes what it was the last to need
  void begin_run() const;                     // inputs are there
  void end_run() const;                       // all may be touched between runs

 private:
  void open(std::size_t buffer) const;
  void close(std::size_t buffer) const;

  std::vector<std::byte*> begins_;
  std::vector<std::int64_t> bytes_;
  std::vector<std::vector<std::size_t>> first_;  // of each instruction
  std::vector<std::vector<std::size_t>> last_;
  std::vector<bool> is_watched_;
  std::vector<bool> is_input_;
};

}  // namespace moesh::run
