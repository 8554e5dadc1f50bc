#include "mesh/context_order.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"

namespace moesh::mesh {

std::vector<std::int64_t> balanced_order(std::int64_t length, std::int64_t shards) {
  const std::int64_t chunks = 2 * shards;
  const std::int64_t size = length / chunks;
  std::vector<std::int64_t> order;
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    for (const std::int64_t chunk : {shard, chunks - 1 - shard}) {
      for (std::int64_t i = 0; i < size; ++i) order.push_back(chunk * size + i);
    }
  }
  return order;
}

namespace {

// What a model computes must not depend on the mesh: why rows must keep their order for that, or nothing.
const char* reason_for_order(const config::Settings& settings) {
  if (settings.integer("num_experts") > 1 && !settings.boolean("sparse_matmul") && settings.real("capacity_factor") > 0)
    return "which tokens the experts drop would depend on the mesh";
  return settings.text("attention_type") == "compressed" ? "keys that are made of neighbouring tokens would depend on the mesh" : nullptr;
}

bool asks_for_balance(const config::Settings& settings, const Mesh& mesh) {
  return mesh.size_of(settings.text("context_sharding")) > 1 && settings.boolean("context_parallel_load_balance");
}

bool should_be_balanced(const config::Settings& settings, const Mesh& mesh) {
  return asks_for_balance(settings, mesh) && reason_for_order(settings) == nullptr;
}

}  // namespace

bool cannot_be_balanced(const config::Settings& settings, const Mesh& mesh) {
  const std::int64_t shards = mesh.size_of(settings.text("context_sharding"));
  return should_be_balanced(settings, mesh) && (shards % 2 != 0 || settings.integer("max_target_length") % (2 * shards) != 0);
}

std::int64_t balanced_shards(const config::Settings& settings, const Mesh& mesh) {
  const bool is_balanced = should_be_balanced(settings, mesh) && !cannot_be_balanced(settings, mesh);
  return is_balanced ? mesh.size_of(settings.text("context_sharding")) : 1;
}

void check_balance(const config::Settings& settings, const Mesh& mesh) {
  if (!cannot_be_balanced(settings, mesh)) return;
  refuse(fmt::format("a context of {} over {} devices cannot be balanced: their number must be even and twice it divide the context",
                     settings.integer("max_target_length"), mesh.size_of(settings.text("context_sharding"))),
         settings.origin("max_target_length").where, "context_parallel_load_balance=false, or another size");
}

void note_balance(const config::Settings& settings, const Mesh& mesh) {
  const char* reason = reason_for_order(settings);
  if (reason != nullptr && asks_for_balance(settings, mesh))
    log_notice(fmt::format("context_parallel_load_balance is left off: {}", reason));
}

std::vector<std::int64_t> context_order(const config::Settings& settings, const Mesh& mesh) {
  check_balance(settings, mesh);
  const std::int64_t shards = balanced_shards(settings, mesh);
  return shards == 1 ? std::vector<std::int64_t>{} : balanced_order(settings.integer("max_target_length"), shards);
}

}  // namespace moesh::mesh
