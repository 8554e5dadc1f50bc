#include "run/memory.h"

#include <algorithm>
#include <sys/mman.h>

#include <fmt/core.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/system.h"
#include "base/text.h"

namespace moesh::run {

Memory::Memory(std::int64_t bytes) : bytes_(bytes) {
  begin_ = take_pages(bytes);
  if (begin_ == nullptr) {
    fail(fmt::format("out of memory: {} could not be had: {}", human_bytes(bytes), system_reason()), "",
         "a smaller model, a smaller per_device_batch_size or a shorter max_target_length");
  }
}

void Memory::close(bool is_closed) const {
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes_, 1));
  if (::mprotect(begin_.get(), size, is_closed ? PROT_NONE : PROT_READ | PROT_WRITE) != 0) {
    fail(fmt::format("memory cannot be closed or opened: {}", system_reason()));
  }
}

}  // namespace moesh::run
