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

// Which tokens experts drop depends on the order of a row, and must not depend on the mesh.
bool drops_tokens(const config::Settings& settings) {
  return settings.integer("num_experts") > 1 && !settings.boolean("sparse_matmul") && settings.real("capacity_factor") > 0;
}

bool asks_for_balance(const config::Settings& settings, const Mesh& mesh) {
  return mesh.size_of(settings.text("context_sharding")) > 1 && settings.boolean("context_parallel_load_balance");
}

}  // namespace

std::int64_t balanced_shards(const config::Settings& settings, const Mesh& mesh) {
  return asks_for_balance(settings, mesh) && !drops_tokens(settings) ? mesh.size_of(settings.text("context_sharding")) : 1;
}

void check_balance(const config::Settings& settings, const Mesh& mesh) {
  const std::int64_t shards = balanced_shards(settings, mesh), length = settings.integer("max_target_length");
  if (shards == 1 || (shards % 2 == 0 && length % (2 * shards) == 0)) return;
  refuse(fmt::format("a context of {} over {} devices cannot be balanced: their number must be even and twice it divide the context",
                     length, shards),
         settings.origin("max_target_length").where, "context_parallel_load_balance=false, or another size");
}

std::vector<std::int64_t> context_order(const config::Settings& settings, const Mesh& mesh) {
  if (asks_for_balance(settings, mesh) && drops_tokens(settings))
    log_notice("context_parallel_load_balance is left off: which tokens the experts drop would depend on the mesh");
  check_balance(settings, mesh);
  const std::int64_t shards = balanced_shards(settings, mesh);
  return shards == 1 ? std::vector<std::int64_t>{} : balanced_order(settings.integer("max_target_length"), shards);
}

}  // namespace moesh::mesh
