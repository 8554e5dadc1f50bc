// The weights of a Hugging Face folder: one safetensors file, or several with an index. They are read tensor by tensor.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/scaled_block.h"
#include "store/safetensors.h"

namespace moesh::store {

// The numbers of a tensor: in the mapped file if they are plain, else decoded into memory of their own.
struct Numbers {
  DType dtype = DType::float32;
  std::byte* data = nullptr;          // read-only
  std::vector<std::int64_t> strides;  // in bytes, of each dim
  std::shared_ptr<void> room;
};

// Tensors for images, which are not read.
struct LeftOut {
  std::set<std::string> parts;  // "vision_tower"
  std::int64_t tensors = 0, bytes = 0;
};
std::string words_of(const LeftOut& left_out);

enum class HuggingFaceKind { text, text_and_images };

class HuggingFaceWeights {
 public:
  // Opens all files. Refuses an index that does not match them. Tensors of the text model have their names in a text-only folder.
  // `scaled`: the block of 8-bit numbers that has one scale, or none if a tensor has one.
  explicit HuggingFaceWeights(std::string folder, HuggingFaceKind kind = HuggingFaceKind::text,
                              std::optional<ScaledBlock> scaled = ScaledBlock{});

  const LeftOut& left_out() const { return left_out_; }

  // The shape of each tensor in the form that it is computed with; scales and blocks count as part of their tensor.
  const std::map<std::string, Shape>& shapes() const { return shapes_; }
  // Refuses numbers that are not finite.
  Numbers read(const std::string& tensor) const;
  bool are_same(const std::string& a, const std::string& b) const;  // in shape and numbers
  // Lets the system reclaim the memory of a tensor that has been read.
  void forget(const std::string& tensor) const;
  StoredType type(const std::string& tensor) const;  // type in the file or, for a quantised tensor, the type it is read as

  const std::string& folder() const { return folder_; }

 private:
  const StoredTensor* find(const std::string& name) const;
  void open_single(const std::string& path);
  void open_sharded(const std::string& index);
  void keep_text();
  void join_quantized();
  bool fit(const StoredTensor& scales, const Shape& of) const;
  Numbers read_scaled(const std::string& name, const StoredTensor& tensor) const;
  Numbers read_blocks(const std::string& name) const;
  Numbers read_encoded(const StoredTensor& tensor) const;

  std::string folder_;
  std::optional<ScaledBlock> scaled_;
  std::vector<TensorFile> files_;
  std::map<std::string, const StoredTensor*> stored_;  // by their names in the files, or in a text-only folder
  LeftOut left_out_;
  std::map<std::string, Shape> shapes_;
};

}  // namespace moesh::store
