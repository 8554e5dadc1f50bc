// For tests: finds reads of buffers outside their lifetimes. A buffer that is not needed holds NaN, and AddressSanitizer, if it is
// built in, reports any access to it or to the gaps between buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/arena.h"
#include "plan/plan.h"

namespace moesh::run {

class LifetimeChecks {
 public:
  static constexpr std::int64_t kGap = 64;  // bytes after each buffer

  // `begins` and `bytes`: of each buffer in this process. Buffers of state are not watched; all others are filled with NaN.
  LifetimeChecks(const plan::Plan& plan, std::vector<std::byte*> begins, std::vector<std::int64_t> bytes);
  ~LifetimeChecks();
  LifetimeChecks(const LifetimeChecks&) = delete;
  LifetimeChecks& operator=(const LifetimeChecks&) = delete;

  void before(plan::InstructionId id) const;  // opens the buffers that this instruction is the first to need
  void after(plan::InstructionId id) const;   // closes the buffers that it was the last to need
  void begin_run() const;                     // opens the inputs and closes the rest
  void end_run() const;                       // opens everything: between runs, another program may use the memory

 private:
  void open(std::size_t buffer) const;
  void close(std::size_t buffer) const;

  std::vector<std::byte*> begins_;
  std::vector<std::int64_t> bytes_;
  std::vector<std::vector<std::size_t>> first_;  // buffers that each instruction is the first to need
  std::vector<std::vector<std::size_t>> last_;
  std::vector<bool> is_watched_;
  std::vector<bool> is_input_;
};

}  // namespace moesh::run
