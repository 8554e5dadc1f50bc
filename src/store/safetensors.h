// Safetensors files: a JSON header, then named dense tensors. Every bound is checked when a file is read.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/shape.h"
#include "store/stored_type.h"

namespace moesh::store {

struct StoredTensor {
  StoredType type;
  Shape shape;
  const std::byte* data = nullptr;
  std::int64_t bytes = 0;

  // As numbers, whatever the stored type.
  std::vector<double> values() const;
  double value(std::size_t index) const;
};

// The tensors of one file. They point into the file, which stays mapped as long as this lives.
struct TensorFile {
  std::map<std::string, StoredTensor> tensors;
  std::shared_ptr<const void> mapping;

  const StoredTensor& at(const std::string& name) const;  // refuses an absent one, and names similar ones
  bool has(const std::string& name) const { return tensors.contains(name); }

  std::string path;
};

std::string_view safetensors_name(StoredType type);  // "F32" for float32

// The header of a file that is written: tensors are laid out one after the other, in the order in which they are added.
class SafetensorsHeader {
 public:
  SafetensorsHeader() { json_.begin_object(); }
  void add_format(std::string_view format);  // metadata that other libraries expect; call it before adding a tensor
  void add(const std::string& name, StoredType type, const Shape& shape);
  std::int64_t bytes() const { return end_; }  // size of all tensors
  // The header's length and the header, padded with spaces so that the first tensor begins at a multiple of `alignment`.
  std::string text(std::int64_t alignment);

 private:
  JsonWriter json_;
  std::int64_t end_ = 0;
};

TensorFile read_safetensors(const std::string& path);

// The tensors of a file that is in memory; `data` must outlive them.
std::map<std::string, StoredTensor> parse_safetensors(const std::byte* data, std::size_t size, const std::string& name);

}  // namespace moesh::store
