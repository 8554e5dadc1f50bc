// Writes the weights of a Hugging Face folder: one safetensors file, or several behind an index, tensor by tensor.
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

inline constexpr std::int64_t kMostOfShard = std::int64_t{5} << 30;  // bytes of a file, unless one tensor has more

// `numbers`: brings those of a tensor, row by row; they are read before it is called again.
void write_weights(const std::string& folder, const std::vector<WrittenTensor>& tensors,
                   const std::function<const std::byte*(std::size_t tensor)>& numbers,
                   std::int64_t most_of_shard = kMostOfShard);

}  // namespace moesh::store
