#include "train/context_order.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"

namespace moesh::train {

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

std::vector<std::int64_t> context_order(const config::Settings& settings, const mesh::Mesh& mesh) {
  const std::int64_t shards = mesh.size_of(settings.text("context_sharding"));
  if (shards == 1 || !settings.boolean("context_parallel_load_balance")) return {};
  const bool drops_tokens =
      settings.integer("num_experts") > 1 && !settings.boolean("sparse_matmul") && settings.real("capacity_factor") > 0;
  if (drops_tokens) {
    log_notice("context_parallel_load_balance is left off: which tokens the experts drop would depend on the mesh");
    return {};
  }
  const std::int64_t length = settings.integer("max_target_length");
  if (shards % 2 != 0 || length % (2 * shards) != 0) {
    refuse(fmt::format("a context of {} over {} devices cannot be balanced: their number must be even and twice it divide the context",
                       length, shards),
           settings.origin("max_target_length").where, "context_parallel_load_balance=false, or another size");
  }
  return balanced_order(length, shards);
}

}  // namespace moesh::train
