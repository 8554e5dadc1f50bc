// Writes the weights of a Hugging Face folder tensor by tensor: one safetensors file, or several with an index.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/shape.h"
#include "store/stored_type.h"

namespace moesh::store {

struct WrittenTensor {
  std::string name;
  StoredType type;
  Shape shape;
};

inline constexpr std::int64_t kMostOfShard = std::int64_t{5} << 30;  // bytes per file, unless a single tensor has more

// `numbers`: returns the data of a tensor, row-major; they are written before the next call.
void write_weights(const std::string& folder, const std::vector<WrittenTensor>& tensors,
                   const std::function<const std::byte*(std::size_t tensor)>& numbers,
                   std::int64_t most_of_shard = kMostOfShard);

}  // namespace moesh::store
