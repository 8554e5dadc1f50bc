// Tests which ops have kernels in the backends.
#include "backend/backend.h"

#include <set>

#include <gtest/gtest.h>

#include "graph/facts.h"
#include "transport/rows.h"

namespace moesh::backend {
namespace {

using graph::Op;

// Ops without kernels: they are placed, laid out or rewritten as other ops, moved by the transport as whole shards, or executed by the
// program itself.
const std::set<Op> kNoKernels{Op::input,       Op::parameter, Op::constraint, Op::detach, Op::reshape, Op::slot_mask,
                              Op::stage_state, Op::repeat,    Op::reshard,    Op::all_sum, Op::region};

TEST(Backends, HaveAKernelOfTheirOwnForEveryOp) {
  for (int op = 0; op < graph::kOps; ++op) {
    const Op of = static_cast<Op>(op);
    const bool is_kernel = !kNoKernels.contains(of) && transport::find_row_collective(of) == nullptr;
    const Kernel fast = cpu_backend().find_kernel(of), plain = reference_backend().find_kernel(of);
    EXPECT_EQ(fast != nullptr, is_kernel) << name_of(of);
    EXPECT_EQ(plain != nullptr, is_kernel) << name_of(of);
    EXPECT_TRUE(fast != plain || !is_kernel) << name_of(of);
  }
}

TEST(Backends, AreFoundByTheirNames) {
  for (const Backend* backend : {&cpu_backend(), &reference_backend()}) EXPECT_EQ(&find_backend(backend->name), backend);
}

}  // namespace
}  // namespace moesh::backend
