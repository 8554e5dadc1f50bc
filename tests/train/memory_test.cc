// A run takes the memory that was planned for it.
#include "train/memory.h"

#include <gmock/gmock.h>

#include "backend/workspace.h"
#include "tests/train/trainer_support.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace moesh::train {
namespace {

using test::kTinyMixtral;
using test::kTinyModel;
using test::Training;

// Buffers of at least a page, so that their sizes are rounded.
const std::string kSmall =
    kTinyModel + "base_emb_dim=64 base_num_query_heads=4 base_num_kv_heads=4 head_dim=16 base_mlp_dim=256 vocab_size=512 max_target_length=64 ";

TEST(MemoryPlan, IsWhatDenseLayoutsTake) {
  for (const char* layout : {"", "per_device_batch_size=4 gradient_accumulation_steps=2", "gradient_accumulation_steps=3 opt_type=sgd",
                             "compile_topology=cpu-4 ici_fsdp_parallelism=4", "dtype=bfloat16 weight_dtype=bfloat16",
                             "compile_topology=cpu-4 ici_fsdp_parallelism=2 ici_tensor_parallelism=2 gradient_accumulation_steps=2",
                             "compile_topology=cpu-4 ici_fsdp_parallelism=1 ici_tensor_parallelism=4 remat_policy=minimal opt_type=muon"}) {
    Training training(kSmall + layout);
    const StepProgram program =
        step_program(training.session.graph, training.settings(), {training.session.layout, training.session.target});
    const Footprint footprint = footprint_of(program);
    for (std::int64_t step = 0; step < 2; ++step) training.trainer.step(training.batch(step));
    // The footprint includes the batch, which the test holds.
    EXPECT_LT(training.trainer.bytes(), footprint.process) << layout;
    EXPECT_GT(training.trainer.bytes() + (64 << 10), footprint.process) << layout;
    const MemoryPlan plan = memory_plan(program, footprint, 2);
    EXPECT_EQ(plan.values, footprint.process);
    EXPECT_GT(plan.already, 1 << 20);
    EXPECT_EQ(plan.total(), plan.already + plan.values + plan.workspace);
  }
}

TEST(MemoryPlan, IsRefusedWhereThereIsLess) {
  const MemoryPlan plan{100 << 20, 30 << 20, 10 << 20};
  EXPECT_EQ(test::message_of([&] { check_memory(plan, {41 << 20, "the machine"}); }), "no error") << "what is taken already is not taken again";
  EXPECT_EQ(test::message_of([&] { check_memory(plan, {}); }), "no error") << "nothing is known";
  EXPECT_THAT(test::message_of([&] { check_memory(plan, {39 << 20, "/sys/fs/cgroup/memory.max"}); }),
              ::testing::HasSubstr("/sys/fs/cgroup/memory.max: 40.0 MiB of memory are needed at the peak, 39.0 MiB are free"));
}

// The memory that the process holds. A sanitizer keeps freed memory, but can tell what is still allocated.
std::int64_t held_memory() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return static_cast<std::int64_t>(__sanitizer_get_current_allocated_bytes());
#else
  return resident_memory();
#endif
}

// Rows that go to other experts in every step take no additional memory.
TEST(MemorySlow, StaysTheSameOverAThousandSteps) {
  for (const char* layout : {"", "compile_topology=cpu-4 ici_fsdp_parallelism=1 ici_expert_parallelism=4 num_experts=8",
                             "compile_topology=cpu-4 ici_fsdp_parallelism=2 ici_expert_parallelism=2 num_experts=8 use_ring_of_experts=true"}) {
    // On one thread: with several, a thread may compute its first product, and allocate memory for it, at any step.
    Training training(kTinyMixtral + layout, 1);
    const auto train_to = [&](std::int64_t steps) {
      while (training.trainer.steps_done() < steps) training.trainer.step(training.batch(training.trainer.steps_done()));
      return held_memory();
    };
    const std::int64_t early = train_to(10), late = train_to(1010);
    EXPECT_LE(late - early, 256 << 10) << layout;
  }
}

TEST(Workspace, GrowsWithThreadsAndNotWithKeys) {
  const auto bytes = [](std::int64_t length, std::int64_t threads) {
    const session::Session session = test::session(kSmall + fmt::format("max_target_length={}", length));
    return backend::workspace_of(session.graph, session.mesh, threads);
  };
  EXPECT_EQ(bytes(64, 6), 3 * bytes(64, 2));
  EXPECT_EQ(bytes(512, 1), bytes(64, 1));
}

}  // namespace
}  // namespace moesh::train
