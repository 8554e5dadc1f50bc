#include "config/hugging_face_quantization.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::config {
namespace {

// Left out it stands for the usual block, and null for the whole tensor.
std::optional<ScaledBlock> read_block(HuggingFaceReader& reader, const Json& object) {
  constexpr const char* kSize = "weight_block_size";
  if (!object.contains(kSize)) return ScaledBlock{};
  if (reader.find(kSize) == nullptr) return std::nullopt;
  const std::vector<std::int64_t> sizes = reader.integers(kSize);
  if (sizes.size() != 2 || sizes[0] < 1 || sizes[1] < 1) reader.refuse_key(kSize, "[rows, columns] of a block, or null");
  return ScaledBlock{sizes[0], sizes[1]};
}

void expect_one_of(HuggingFaceReader& reader, const char* key, const char* usual, const char* other) {
  const std::string given = reader.text(key, usual);
  if (given != usual && given != other) reader.refuse_key(key, fmt::format("{} or {}", usual, other));
}

}  // namespace

std::optional<ScaledBlock> read_quantization(HuggingFaceReader& reader) {
  const Json* quantized = reader.find("quantization_config");
  if (quantized == nullptr || quantized->empty()) return ScaledBlock{};
  std::vector<HuggingFaceKey> none;
  HuggingFaceReader inner(*quantized, reader.where(), "quantization_config.", none);
  const std::string method = inner.text("quant_method", "");
  if (method != "fp8" && method != "mxfp4") {
    refuse(fmt::format("quantised as '{}', fp8 or mxfp4 was expected", shorten(method, 40)), inner.place("quant_method"),
           "take a model in bfloat16");
  }
  inner.ignore({"modules_to_not_convert", "ignored_layers", "dequantize"});  // a tensor's type says whether it is quantised
  std::optional<ScaledBlock> block = ScaledBlock{};
  if (method == "fp8") {
    block = read_block(inner, *quantized);
    inner.expect_text("fmt", "e4m3");
    inner.expect_text("expert_dtype", "fp8");
    inner.expect_off("modules_to_convert");
    expect_one_of(inner, "scale_fmt", "float", "ue8m0");             // the scales' type says it
    expect_one_of(inner, "activation_scheme", "dynamic", "static");  // of activations, which stay as they are here
  }
  inner.finish();
  return block;
}

}  // namespace moesh::config
