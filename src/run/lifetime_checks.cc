#include "run/lifetime_checks.h"

#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(begin, size) ((void)(begin), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(begin, size) ((void)(begin), (void)(size))
#endif

namespace moesh::run {

LifetimeChecks::LifetimeChecks(const plan::Plan& plan, std::vector<std::byte*> begins, std::vector<std::int64_t> bytes)
    : begins_(std::move(begins)),
      bytes_(std::move(bytes)),
      first_(plan.instructions.size() + 1),
      last_(plan.instructions.size() + 1),
      is_watched_(plan.buffers.size()),
      is_input_(plan.buffers.size()) {
  const std::vector<plan::Lifetime> lives = plan::lifetimes_of(plan);
  for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
    is_watched_[b] = plan.buffers[b].lasts != plan::Lasts::from_run_to_run && bytes_[b] > 0;
    is_input_[b] = plan.buffers[b].lasts == plan::Lasts::as_input;
    if (!is_watched_[b]) continue;
    close(b);
    first_[static_cast<std::size_t>(lives[b].first)].push_back(b);
    last_[static_cast<std::size_t>(lives[b].last)].push_back(b);
  }
  end_run();
}

LifetimeChecks::~LifetimeChecks() { end_run(); }

void LifetimeChecks::before(plan::InstructionId id) const {
  for (const std::size_t buffer : first_[static_cast<std::size_t>(id)]) open(buffer);
}

void LifetimeChecks::after(plan::InstructionId id) const {
  for (const std::size_t buffer : last_[static_cast<std::size_t>(id)]) close(buffer);
}

void LifetimeChecks::begin_run() const {
  for (std::size_t b = 0; b < begins_.size(); ++b) {
    if (is_watched_[b]) ASAN_POISON_MEMORY_REGION(begins_[b], static_cast<std::size_t>(bytes_[b] + kGap));
  }
  for (std::size_t b = 0; b < begins_.size(); ++b) {
    if (is_watched_[b] && is_input_[b]) open(b);
  }
}

void LifetimeChecks::end_run() const {
  for (std::size_t b = 0; b < begins_.size(); ++b) {
    if (is_watched_[b]) ASAN_UNPOISON_MEMORY_REGION(begins_[b], static_cast<std::size_t>(bytes_[b] + kGap));
  }
}

void LifetimeChecks::open(std::size_t b) const { ASAN_UNPOISON_MEMORY_REGION(begins_[b], static_cast<std::size_t>(bytes_[b])); }

// All bits set are NaN in every floating type, and -1 for integers.
void LifetimeChecks::close(std::size_t b) const {
  ASAN_UNPOISON_MEMORY_REGION(begins_[b], static_cast<std::size_t>(bytes_[b]));
  std::memset(begins_[b], 0xff, static_cast<std::size_t>(bytes_[b]));
  ASAN_POISON_MEMORY_REGION(begins_[b], static_cast<std::size_t>(bytes_[b] + kGap));
}

}  // namespace moesh::run
