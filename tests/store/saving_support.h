// Support for tests of checkpoints' folders: checkpoints without a tensor.
#pragma once

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "store/saving.h"

namespace moesh::test {

inline void save_empty_checkpoint(const std::string& path, std::int64_t step) {
  store::Saving saving(path, {"1.0", "today", step, 96, "adamw", 12, {}, {}}, {});
  saving.wait();
  ASSERT_EQ(saving.error(), "");
}

}  // namespace moesh::test
