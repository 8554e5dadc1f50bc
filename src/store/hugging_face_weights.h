// The weights of a Hugging Face folder: one safetensors file, or several behind an index. Read tensor by tensor.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "store/safetensors.h"

namespace moesh::store {

// The numbers of a tensor: in the file where they are plain, else read into memory of their own.
struct Numbers {
  DType dtype = DType::float32;
  std::byte* data = nullptr;          // not to be written to
  std::vector<std::int64_t> strides;  // in bytes, of each dim
  std::shared_ptr<void> room;
};

// Tensors that make something of images, which nothing is read of.
struct LeftOut {
  std::set<std::string> parts;  // "vision_tower"
  std::int64_t tensors = 0, bytes = 0;
};
std::string words_of(const LeftOut& left_out);

enum class HuggingFaceKind { text, text_and_images };

class HuggingFaceWeights {
 public:
  // Opens all files. Refuses an index that does not tell what is in them. Tensors of text are called as where it is alone.
  explicit HuggingFaceWeights(std::string folder, HuggingFaceKind kind = HuggingFaceKind::text);

  const LeftOut& left_out() const { return left_out_; }

  // Of each tensor, in the form that it is computed in: scales and blocks are a part of what they belong to.
  const std::map<std::string, Shape>& shapes() const { return shapes_; }
  // Refuses numbers that are not finite.
  Numbers read(const std::string& tensor) const;
  // Lets the machine take back what was read of it.
  void forget(const std::string& tensor) const;
  StoredType type(const std::string& tensor) const;  // that it is written in; where it is quantised, that it is read in

  const std::string& folder() const { return folder_; }

 private:
  const StoredTensor* find(const std::string& name) const;
  void open_single(const std::string& path);
  void open_sharded(const std::string& index);
  void keep_text();
  void join_quantized();
  Numbers read_scaled(const std::string& name, const StoredTensor& tensor) const;
  Numbers read_blocks(const std::string& name) const;
  Numbers read_encoded(const StoredTensor& tensor) const;

  std::string folder_;
  std::vector<TensorFile> files_;
  std::map<std::string, const StoredTensor*> stored_;  // by the names in the files
  LeftOut left_out_;
  std::map<std::string, Shape> shapes_;
};

}  // namespace moesh::store
