#include "store/hugging_face_weights.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>
#include <sys/mman.h>
#include <unistd.h>

#include <fmt/core.h>

#include "base/bfloat16.h"
#include "base/error.h"
#include "base/json_reader.h"
#include "base/rounding.h"
#include "base/system.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "store/hugging_face_names.h"
#include "store/model_tensors.h"
#include "store/parts.h"
#include "store/small_floats.h"

namespace moesh::store {
namespace {

constexpr std::int64_t kMostHuggingFaceIndex = 256 << 20;
constexpr std::string_view kScale = "_scale_inv", kBlocks = "_blocks", kScales = "_scales";
constexpr std::int64_t kBlock = 32;  // numbers per scale of 4-bit numbers
constexpr std::int64_t kBlockBytes = kBlock / 2;

template <typename T>
Numbers made_numbers(const Shape& shape, DType dtype) {
  const auto room = std::make_shared<std::vector<T>>(static_cast<std::size_t>(elements(shape)));
  const Part whole = dense_part(whole_block(shape), dtype, reinterpret_cast<std::byte*>(room->data()));
  return {dtype, whole.data, whole.strides, room};
}

// Whether none of the numbers has an exponent of all ones, as infinities and NaNs have. A group of numbers is checked at a time,
// without leaving early, so that the loop vectorises.
template <typename Bits>
bool none_has(const StoredTensor& tensor, Bits exponent) {
  constexpr std::int64_t kTogether = 64;
  const std::int64_t all = elements(tensor.shape);
  for (std::int64_t begin = 0; begin < all; begin += kTogether) {
    Bits bits[kTogether] = {};
    const auto count = static_cast<std::size_t>(std::min(kTogether, all - begin));
    std::memcpy(bits, tensor.data + begin * static_cast<std::int64_t>(sizeof(Bits)), count * sizeof(Bits));
    Bits found = 0;
    for (const Bits one : bits) found = static_cast<Bits>(found | ((one & exponent) == exponent ? 1 : 0));
    if (found != 0) return false;
  }
  return true;
}

bool are_finite(const StoredTensor& tensor) {
  if (tensor.type == StoredType{DType::float32}) return none_has<std::uint32_t>(tensor, 0x7F800000u);
  if (tensor.type == StoredType{DType::bfloat16}) return none_has<std::uint16_t>(tensor, 0x7F80);
  if (tensor.type == kFloat16) return none_has<std::uint16_t>(tensor, 0x7C00);
  const std::int64_t count = elements(tensor.shape);
  for (std::int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(tensor.value(static_cast<std::size_t>(i)))) return false;
  }
  return true;
}

// The block of a tensor's numbers that has one scale, no larger than the tensor.
ScaledBlock block_of(const std::optional<ScaledBlock>& scaled, const Shape& shape) {
  const std::int64_t rows = std::max<std::int64_t>(1, shape[0]), columns = std::max<std::int64_t>(1, shape[1]);
  if (!scaled) return {rows, columns};
  return {std::min(scaled->rows, rows), std::min(scaled->columns, columns)};
}

// A scale of one byte is an exponent.
std::vector<float> scales_of(const StoredTensor& stored, const std::string& name) {
  std::vector<float> scales;
  const bool are_exponents = stored.type.encoding == Encoding::uint8;
  for (std::int64_t i = 0; i < elements(stored.shape); ++i) {
    const auto at = static_cast<std::size_t>(i);
    scales.push_back(are_exponents ? power_of_two(std::to_integer<std::uint8_t>(stored.data[i])) : static_cast<float>(stored.value(at)));
    if (!std::isfinite(scales.back())) refuse("its scales hold what is no number", name, "the file is damaged: take it again");
  }
  return scales;
}

}  // namespace

std::string words_of(const LeftOut& left_out) {
  const std::vector<std::string> parts(left_out.parts.begin(), left_out.parts.end());
  return fmt::format("{} of {}, {}", counted(left_out.tensors, "tensor"), join(parts, " and "),
                     human_bytes(left_out.bytes));
}

HuggingFaceWeights::HuggingFaceWeights(std::string folder, HuggingFaceKind kind, std::optional<ScaledBlock> scaled)
    : folder_(std::move(folder)), scaled_(scaled) {
  const std::string index = folder_ + "/model.safetensors.index.json", single = folder_ + "/model.safetensors";
  if (is_file(single)) {  // goes before an index, as transformers has it
    open_single(single);
  } else if (is_file(index)) {
    open_sharded(index);
  } else {
    refuse("no weights are there", folder_,
           "model.safetensors or model.safetensors.index.json was expected, beside config.json");
  }
  if (kind == HuggingFaceKind::text_and_images) keep_text();
  join_quantized();
}

void HuggingFaceWeights::keep_text() {
  std::map<std::string, const StoredTensor*> kept;
  std::vector<std::string> unknown;
  for (const auto& [name, tensor] : stored_) {
    if (const std::optional<std::string> part = part_of_images(name)) {
      left_out_.parts.insert(*part);
      left_out_.tensors += 1;
      left_out_.bytes += tensor->bytes;
    } else if (const std::optional<std::string> alone = name_in_text(name)) {
      if (!kept.emplace(*alone, tensor).second) {
        refuse(fmt::format("'{}' and another tensor are both {}", shorten(name, 80), shorten(*alone, 80)), folder_,
               "take one of them away");
      }
    } else {
      unknown.push_back(name);
    }
  }
  if (!unknown.empty()) {
    refuse("the weights have tensors that are neither of text nor of images: " + few_of(unknown), folder_,
           "take the config.json that belongs to the weights");
  }
  stored_ = std::move(kept);
}

void HuggingFaceWeights::open_single(const std::string& path) {
  files_.push_back(read_safetensors(path));
  for (const auto& [name, tensor] : files_.front().tensors) stored_.emplace(name, &tensor);
}

void HuggingFaceWeights::open_sharded(const std::string& index) {
  const Json json = parse_json(read_file(index, "the index of weights", kMostHuggingFaceIndex, "name a folder of weights"), index);
  const auto file_of = member<std::map<std::string, std::string>>(json, "weight_map", index);
  std::map<std::string, std::set<std::string>> names_in;
  for (const auto& [name, file] : file_of) names_in[file].insert(name);
  files_.reserve(names_in.size());
  for (const auto& [file, names] : names_in) {
    if (file.find('/') != std::string::npos) refuse(fmt::format("'{}' is no file beside it", shorten(file, 80)), index);
    files_.push_back(read_safetensors(folder_ + "/" + file));
    const TensorFile& opened = files_.back();
    for (const std::string& name : names) stored_.emplace(name, &opened.at(name));
    for (const auto& [name, tensor] : opened.tensors) {
      if (names.contains(name)) continue;
      const bool is_twice = file_of.contains(name);
      refuse(is_twice ? fmt::format("'{}' is there too, the index says {}", shorten(name, 80), file_of.at(name))
                      : fmt::format("'{}' is there, the index does not name it", shorten(name, 80)),
             opened.path, "take weights whose index is theirs");
    }
  }
}

// Collects the shapes of the tensors. The scales and blocks of a quantised tensor are not tensors of their own, and what scales activations
// is not read, as those are not quantised here.
void HuggingFaceWeights::join_quantized() {
  // Whether a name is that of 8-bit numbers, but for its ending.
  const auto is_of_scaled = [&](const std::string& name, std::string_view ending, std::string_view of) {
    if (!name.ends_with(ending)) return false;
    const StoredTensor* tensor = find(name.substr(0, name.size() - ending.size()) + std::string(of));
    return tensor != nullptr && tensor->type.encoding == Encoding::float8_e4m3;
  };
  for (const auto& [name, tensor] : stored_) {
    const bool is_scale = is_of_scaled(name, kScale, "") || is_of_scaled(name, ".activation_scale", ".weight");
    const bool are_scales = name.ends_with(kScales) &&
                            stored_.contains(name.substr(0, name.size() - kScales.size()) + std::string(kBlocks));
    if (is_scale || are_scales) continue;
    if (!name.ends_with(kBlocks)) {
      shapes_.emplace(name, tensor->shape);
      continue;
    }
    // Stored as [experts, out, blocks, bytes], but computed with as [experts, in, out].
    const std::string whole = name.substr(0, name.size() - kBlocks.size());
    const Shape& shape = tensor->shape;
    const StoredTensor* scales = find(whole + std::string(kScales));
    const bool fits = shape.size() == 4 && shape[3] == kBlockBytes && tensor->type.encoding == Encoding::uint8 &&
                      scales != nullptr && scales->type.encoding == Encoding::uint8 &&
                      scales->shape == Shape{shape[0], shape[1], shape[2]};
    if (!fits)
      refuse(fmt::format("blocks {} without their scales, a byte for each 16", to_string(shape)), name,
             "take weights in bfloat16");
    shapes_.emplace(whole, Shape{shape[0], shape[2] * kBlock, shape[1]});
  }
}

const StoredTensor* HuggingFaceWeights::find(const std::string& name) const {
  const auto found = stored_.find(name);
  return found == stored_.end() ? nullptr : found->second;
}

StoredType HuggingFaceWeights::type(const std::string& name) const {
  const StoredTensor* tensor = find(name);
  if (tensor == nullptr) return {DType::bfloat16};
  return tensor->type == kFloat16 ? kFloat16 : StoredType{tensor->type.dtype};
}

Numbers HuggingFaceWeights::read_encoded(const StoredTensor& tensor) const {
  const Numbers made = made_numbers<float>(tensor.shape, DType::float32);
  auto* numbers = reinterpret_cast<float*>(made.data);
  for (std::int64_t i = 0; i < elements(tensor.shape); ++i)
    numbers[i] = static_cast<float>(tensor.value(static_cast<std::size_t>(i)));
  return made;
}

// The scale of a whole tensor may have any number of dims.
bool HuggingFaceWeights::fit(const StoredTensor& scales, const Shape& of) const {
  const bool are_numbers = is_floating(scales.type.dtype) || scales.type.encoding == Encoding::uint8;
  if (!are_numbers || of.size() != 2) return false;
  if (!scaled_) return elements(scales.shape) == 1;
  const ScaledBlock block = block_of(scaled_, of);
  return scales.shape == Shape{divide_up(of[0], block.rows), divide_up(of[1], block.columns)};
}

Numbers HuggingFaceWeights::read_scaled(const std::string& name, const StoredTensor& tensor) const {
  const StoredTensor* stored = find(name + std::string(kScale));
  if (stored == nullptr || !fit(*stored, tensor.shape)) {
    const std::string each = scaled_ ? fmt::format("a scale for each {} x {}", scaled_->rows, scaled_->columns) : "one scale for all";
    refuse(fmt::format("8-bit numbers {} without {} of them{}", to_string(tensor.shape), each,
                       stored == nullptr ? "" : ", but " + to_string(stored->shape)),
           name, "weight_block_size in the quantization_config of config.json as the weights have it, or weights in bfloat16");
  }
  const std::vector<float> scales = scales_of(*stored, name);
  const Numbers made = read_encoded(tensor);
  auto* numbers = reinterpret_cast<float*>(made.data);
  const ScaledBlock block = block_of(scaled_, tensor.shape);
  const std::int64_t columns = tensor.shape[1], in_row = divide_up(columns, block.columns);
  for (std::int64_t row = 0; row < tensor.shape[0]; ++row) {
    for (std::int64_t column = 0; column < columns; ++column)
      numbers[row * columns + column] *= scales[static_cast<std::size_t>(row / block.rows * in_row + column / block.columns)];
  }
  return made;
}

// Two 4-bit numbers per byte, the lower one first. As their scale is a power of two, bfloat16 holds them exactly.
Numbers HuggingFaceWeights::read_blocks(const std::string& name) const {
  const StoredTensor& blocks = *find(name + std::string(kBlocks));
  const StoredTensor& scales = *find(name + std::string(kScales));
  const Shape stored{blocks.shape[0], blocks.shape[1], blocks.shape[2] * kBlock};
  Numbers made = made_numbers<bfloat16>(stored, DType::bfloat16);
  auto* numbers = reinterpret_cast<bfloat16*>(made.data);
  for (std::int64_t block = 0; block < elements(scales.shape); ++block) {
    const float scale = power_of_two(std::to_integer<std::uint8_t>(scales.data[block]));
    if (!std::isfinite(scale)) refuse("its scales hold what is no number", name, "the file is damaged: take it again");
    for (std::int64_t i = 0; i < kBlockBytes; ++i) {
      const unsigned byte = std::to_integer<unsigned>(blocks.data[block * kBlockBytes + i]);
      numbers[block * kBlock + 2 * i] = bfloat16(scale * from_float4_e2m1(byte));
      numbers[block * kBlock + 2 * i + 1] = bfloat16(scale * from_float4_e2m1(byte >> 4));
    }
  }
  std::swap(made.strides[1], made.strides[2]);
  return made;
}

Numbers HuggingFaceWeights::read(const std::string& name) const {
  const StoredTensor* tensor = find(name);
  if (tensor == nullptr) return read_blocks(name);
  if (!are_finite(*tensor))
    refuse("it holds what is no number", fmt::format("{}: {}", folder_, name), "the file is damaged: take it again");
  if (tensor->type.encoding == Encoding::float8_e4m3) return read_scaled(name, *tensor);
  if (!is_floating(tensor->type.dtype)) {
    refuse(fmt::format("it is {}, weights were expected", name_of(tensor->type.dtype)), fmt::format("{}: {}", folder_, name),
           "take weights in float32, bfloat16 or float16");
  }
  if (tensor->type.encoding != Encoding::plain) return read_encoded(*tensor);
  const Part whole = dense_part(whole_block(tensor->shape), tensor->type.dtype, const_cast<std::byte*>(tensor->data));
  return {whole.dtype, whole.data, whole.strides, nullptr};
}

bool HuggingFaceWeights::are_same(const std::string& a, const std::string& b) const {
  const StoredTensor *of_a = find(a), *of_b = find(b);
  if (of_a == nullptr || of_b == nullptr || of_a->shape != of_b->shape) return false;
  if (of_a->type == of_b->type) return std::memcmp(of_a->data, of_b->data, static_cast<std::size_t>(of_a->bytes)) == 0;
  const std::int64_t count = elements(of_a->shape);
  for (std::int64_t i = 0; i < count; ++i) {
    if (of_a->value(static_cast<std::size_t>(i)) != of_b->value(static_cast<std::size_t>(i))) return false;
  }
  return true;
}

void HuggingFaceWeights::forget(const std::string& name) const {
  const StoredTensor* tensor = find(name);
  if (tensor == nullptr) tensor = find(name + std::string(kBlocks));
  if (tensor == nullptr) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor->data) / page * page;
  const auto end =
      (reinterpret_cast<std::uintptr_t>(tensor->data) + static_cast<std::uintptr_t>(tensor->bytes)) / page * page;
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace moesh::store
