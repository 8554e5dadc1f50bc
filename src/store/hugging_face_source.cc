#include "store/hugging_face_source.h"

#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::store {
namespace {

bool share_something(const std::vector<Part>& a, const std::vector<Part>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Part& of_a) {
    return std::any_of(b.begin(), b.end(),
                       [&](const Part& of_b) { return shared_block(of_a.block, of_b.block).has_value(); });
  });
}

// The numbers of a query kernel, which our model may have smaller than theirs.
Numbers scaled(const Numbers& from, const Shape& shape, double factor) {
  const Part source{whole_block(shape), from.dtype, from.data, from.strides};
  const auto room = std::make_shared<std::vector<float>>(static_cast<std::size_t>(elements(shape)));
  const Part target = dense_part(whole_block(shape), DType::float32, reinterpret_cast<std::byte*>(room->data()));
  copy_shared(source, target);
  multiply(target.data, elements(shape), DType::float32, factor);
  return {DType::float32, target.data, target.strides, room};
}

// A type that holds the numbers of both.
StoredType wider(StoredType a, StoredType b) {
  if (a == b) return a;
  const bool is_double = a.dtype == DType::float64 || b.dtype == DType::float64;
  return {is_double ? DType::float64 : DType::float32};
}

}  // namespace

void multiply(std::byte* data, std::int64_t count, DType dtype, double factor) {
  const auto times = [&]<typename T>(T* numbers) {
    for (std::int64_t i = 0; i < count; ++i) numbers[i] = static_cast<T>(static_cast<double>(numbers[i]) * factor);
  };
  if (dtype == DType::float64) return times(reinterpret_cast<double*>(data));
  times(reinterpret_cast<float*>(data));
}

std::vector<float> as_theirs(const HuggingFaceModel& model, const HuggingFaceTensor& tensor,
                             const std::function<std::vector<Part>(const std::string& alone)>& parts_of) {
  std::vector<float> numbers(static_cast<std::size_t>(elements(tensor.shape)));
  const Part whole =
      dense_part(whole_block(tensor.shape), DType::float32, reinterpret_cast<std::byte*>(numbers.data()));
  for (const HuggingFacePlace& place : tensor.places) {
    const std::vector<Part> ours = parts_of(place.ours);
    for (const Part& to : parts_of_ours(model, place, whole.data, whole.dtype, whole.strides)) {
      for (const Part& from : ours) copy_shared(from, to);
    }
  }
  return numbers;
}

HuggingFaceSource::HuggingFaceSource(const HuggingFaceModel& model, HuggingFaceWeights weights, const std::vector<ModelTensor>& ours)
    : model_(named_as(model, weights.shapes())), weights_(std::move(weights)), layers_(layer_names(ours)) {
  const std::map<std::string, HuggingFaceTensor> wanted = hugging_face_tensors(model_, shapes_alone(ours));
  check(wanted);
  for (const auto& [theirs, tensor] : wanted) {
    for (const HuggingFacePlace& place : tensor.places) pieces_[place.ours].push_back({theirs, place});
  }
}

void HuggingFaceSource::check(const std::map<std::string, HuggingFaceTensor>& wanted) const {
  std::vector<std::string> missing, other, unused;
  for (const auto& [name, tensor] : wanted) {
    const auto there = weights_.shapes().find(name);
    if (there == weights_.shapes().end())
      missing.push_back(name);
    else if (there->second != tensor.shape)
      other.push_back(
          fmt::format("{} is {}, config.json makes it {}", name, to_string(there->second), to_string(tensor.shape)));
  }
  for (const auto& [name, shape] : weights_.shapes()) {
    if (!wanted.contains(name) && !may_be_left_out(model_, name)) unused.push_back(name);
  }
  constexpr const char* kFix = "take the config.json that belongs to the weights";
  if (!missing.empty()) refuse("the weights lack " + few_of(missing), weights_.folder(), kFix);
  if (!unused.empty())
    refuse("the weights have tensors that the model has not: " + few_of(unused), weights_.folder(), kFix);
  if (!other.empty()) refuse("the weights are of other shapes: " + few_of(other), weights_.folder(), kFix);
  check_head();
}

// Such a head is used by transformers in place of the embedding.
void HuggingFaceSource::check_head() const {
  constexpr const char *kHead = "lm_head.weight", *kEmbedding = "model.embed_tokens.weight";
  if (!model_.tied_embedding || !weights_.shapes().contains(kHead)) return;
  const bool is_same = weights_.are_same(kHead, kEmbedding);
  for (const char* name : {kHead, kEmbedding}) weights_.forget(name);
  if (is_same) return;
  refuse(fmt::format("{} is another matrix than {}, but config.json says tie_word_embeddings: true", kHead, kEmbedding), weights_.folder(),
         "tie_word_embeddings: false, or take the weights without it");
}

DType HuggingFaceSource::dtype_of(const std::string& ours) const {
  StoredType widest{DType::bfloat16};
  for (const StoredType type : types_of(ours)) widest = wider(widest, type);
  const bool is_scaled = model_.query_factor != 1 && pieces_.at(layers_.alone(ours).front()).front().place.row->is_query;
  return is_scaled ? wider(widest, {DType::float32}).dtype : widest.dtype;
}

std::vector<StoredType> HuggingFaceSource::types_of(const std::string& ours) const {
  std::vector<StoredType> types;
  for (const std::string& alone : layers_.alone(ours)) {
    const std::vector<Piece>& pieces = pieces_.at(alone);
    StoredType widest = weights_.type(pieces.front().theirs);
    for (const Piece& piece : pieces) widest = wider(widest, weights_.type(piece.theirs));
    types.push_back(widest);
  }
  return types;
}

void HuggingFaceSource::fill_layer(const Piece& piece, const std::vector<Part>& parts) const {
  const Shape& shape = weights_.shapes().at(piece.theirs);
  const std::vector<std::int64_t> no_strides(shape.size());
  if (!share_something(parts_of_ours(model_, piece.place, nullptr, DType::float32, no_strides), parts)) return;
  Numbers numbers = weights_.read(piece.theirs);
  if (piece.place.row->is_query && model_.query_factor != 1) numbers = scaled(numbers, shape, model_.query_factor);
  for (const Part& from : parts_of_ours(model_, piece.place, numbers.data, numbers.dtype, numbers.strides)) {
    for (const Part& part : parts) copy_shared(from, part);
  }
  weights_.forget(piece.theirs);
}

void HuggingFaceSource::fill(const std::string& ours, const std::vector<Part>& parts, backend::Workers& workers) {
  struct Todo {
    const Piece* piece;
    std::vector<Part> parts;
  };
  std::vector<Todo> all;
  for (const std::string& alone : layers_.alone(ours)) {
    const Layer& layer = *layers_.find(alone);
    const std::vector<Part> of_layer = store::of_layer(parts, layer);
    for (const Piece& piece : pieces_.at(alone)) all.push_back({&piece, of_layer});
  }
  workers.parallel(static_cast<std::int64_t>(all.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      fill_layer(*all[static_cast<std::size_t>(i)].piece, all[static_cast<std::size_t>(i)].parts);
  });
}

}  // namespace moesh::store
