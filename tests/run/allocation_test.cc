// A step gets its memory before it runs: once every kernel has run, no run allocates.
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "run/program.h"
#include "tests/support.h"
#include "train/program.h"

// Sanitizers have allocators of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

std::atomic<std::int64_t> allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, rounded)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// Not inlined: GCC warns of a mismatch if it sees what one of new and delete calls, but not what the other one calls.
#define MOESH_APART [[gnu::noinline]]
MOESH_APART void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
MOESH_APART void* operator new(std::size_t bytes, std::align_val_t alignment) { return counted(bytes, static_cast<std::size_t>(alignment)); }
MOESH_APART void operator delete(void* memory) noexcept { std::free(memory); }
MOESH_APART void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
MOESH_APART void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
MOESH_APART void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
#undef MOESH_APART

namespace moesh::run {
namespace {

// Feeds numbers that differ from run to run, so that rows go to different experts each time.
void feed(const Program& program, std::int64_t run) {
  std::uint32_t draw = static_cast<std::uint32_t>(run) * 7919 + 1;
  const auto next = [&] { return (draw = draw * 1664525 + 1013904223) >> 8; };
  for (const plan::Port& port : program.plan().ports) {
    if (port.kind == plan::Port::Kind::output || (port.kind == plan::Port::Kind::state && run > 0)) continue;
    const Placed value = program.value(port.view);
    for (const Array& shard : value.shards) {
      for (std::int64_t i = 0; i < shard.view.count(); ++i) {
        switch (shard.view.dtype) {
          case DType::int32:
            shard.as<std::int32_t>()[i] = port.name.find("position") == std::string::npos
                                              ? static_cast<std::int32_t>(next() % 20)
                                              : static_cast<std::int32_t>(i % shard.view.shape.back());
            break;
          case DType::float32: shard.as<float>()[i] = static_cast<float>(next() % 1000) * 1e-4f - 0.04f; break;
          case DType::bfloat16: shard.as<bfloat16>()[i] = bfloat16(static_cast<float>(next() % 1000) * 1e-4f - 0.04f); break;
          default: FAIL() << port.name;
        }
      }
    }
  }
}

class Allocations : public testing::TestWithParam<std::string> {};

TEST_P(Allocations, NoneAfterTheFirstStep) {
  const session::Session session = test::session(GetParam());
  train::StepProgram step =
      train::step_program(session.graph, session.loaded.settings, {session.layout, session.target});
  Workers workers(1);  // with several workers, it is open which of them takes a block first
  Program program(std::move(step.plan), std::make_shared<State>(), workers, {.checks_lifetimes = false});
  for (std::int64_t run = 0; run < 4; ++run) {
    feed(program, run);
    const std::int64_t before = allocations;
    program.run();
    EXPECT_TRUE(run == 0 || allocations == before) << allocations - before << " in run " << run;
  }
}

std::vector<std::string> requests() {
  const std::string dense =
      "dtype=bfloat16 base_num_decoder_layers=2 base_emb_dim=16 base_num_query_heads=2 base_num_kv_heads=2 head_dim=8 base_mlp_dim=32 "
      "vocab_size=24 per_device_batch_size=2 max_target_length=16 dataset_type=synthetic ";
  const std::string experts = dense +
      "model_name=mixtral-8x7b override_model_config=true base_moe_mlp_dim=32 num_experts=8 num_experts_per_tok=2 ";
  return {
      dense + "compile_topology=cpu-1",
      dense + "compile_topology=cpu-4 ici_fsdp_parallelism=2 ici_tensor_parallelism=2",
      dense + "compile_topology=cpu-2 ici_context_parallelism=2 gradient_accumulation_steps=2",
      experts + "compile_topology=cpu-1 dtype=float32",
      experts + "compile_topology=cpu-4 ici_expert_parallelism=4",
      experts + "compile_topology=cpu-4 ici_fsdp_parallelism=2 ici_expert_parallelism=2 use_ring_of_experts=true",
      experts + "compile_topology=cpu-2 ici_expert_parallelism=2 sparse_matmul=false capacity_factor=1.25",
      experts + "compile_topology=cpu-2 ici_fsdp_parallelism=2 opt_type=muon remat_policy=minimal",
  };
}

INSTANTIATE_TEST_SUITE_P(Layouts, Allocations, testing::ValuesIn(requests()));

}  // namespace
}  // namespace moesh::run

#endif
