#include "config/hugging_face.h"

#include <filesystem>

#include <fmt/core.h>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "config/attention_parts.h"
#include "config/hugging_face_families.h"
#include "config/hugging_face_quantization.h"

namespace moesh::config {
namespace {

constexpr std::int64_t kMostConfig = 16 << 20;
constexpr const char* kFix = "name a folder with a Hugging Face config.json";
constexpr const char *kText = "text_config", *kTied = "tie_word_embeddings";

// What a file describes: a model of a family, or a model that has one of a family as a part.
struct Described {
  const HuggingFaceFamily* family = nullptr;
  bool is_part = false;
};

Described described_by(const Json& config, const std::string& where) {
  const auto type = member<std::string>(config, "model_type", where);
  std::vector<std::string> names, wholes;
  for (const HuggingFaceFamily& family : hugging_face_families()) {
    if (family.model_type == type) return {&family, false};
    names.emplace_back(family.model_type);
    if (family.whole.model_type.empty()) continue;
    if (family.whole.model_type == type) return {&family, true};
    wholes.emplace_back(family.whole.model_type);
  }
  refuse(fmt::format("model_type '{}' is an architecture that moesh does not know", shorten(type, 60)), where,
         fmt::format("it knows {}, and the text of {}", join(names, ", "), join(wholes, ", ")));
}

// Classifiers and encoders of the same family are refused, as they have other heads.
void check_architecture(std::string_view architecture, HuggingFaceReader& reader) {
  const std::vector<std::string> all = reader.texts("architectures");
  const bool is_known = all.empty() || (all.size() == 1 && all.front() == architecture);
  if (!is_known) reader.refuse_key("architectures", std::string(architecture));
}

// Keys that do not affect the model's numbers: where it comes from, how it is run, sampled or initialised.
void ignore_what_is_said_besides(HuggingFaceReader& reader, const Json& config) {
  reader.ignore({"model_type",
                 "torch_dtype",
                 "dtype",
                 "transformers_version",
                 "bos_token_id",
                 "eos_token_id",
                 "pad_token_id",
                 "use_cache",
                 "initializer_range",
                 "pretraining_tp",
                 "auto_map",
                 "output_router_logits",
                 "router_aux_loss_coef",
                 "output_attentions",
                 "output_hidden_states",
                 "return_dict",
                 "use_return_dict",
                 "name_or_path",
                 "id2label",
                 "label2id",
                 "problem_type",
                 "task_specific_params",
                 "tokenizer_class",
                 "is_encoder_decoder",
                 "chunk_size_feed_forward"});
  for (const auto& [name, value] : config.items()) {
    if (name.starts_with("_")) reader.ignore({name});
  }
}

// Gives the keys that are left out the values that they stand for.
void fill_in(Json& config, std::string_view model_type, const std::string& where) {
  for (const auto& [key, value, may_be_null] : hugging_face_usual(model_type)) {
    if (!config.contains(key)) {
      config[key] = Json::parse(value);
    } else if (config[key].is_null() && !may_be_null) {
      refuse("null, where transformers takes none", fmt::format("{}: {}", where, key),
             fmt::format("take it out: it stands for {} then", value));
    }
  }
}

// MaxText's layers of most families ignore these parts, which Hugging Face's have.
void give_parts_anywhere(HuggingFaceReader& reader) {
  Settings read;
  for (const HuggingFaceKey& given : reader.settings()) {
    for (const char* key : {"decoder_block", "attention_type", "attention_bias", "use_qk_norm"}) {
      if (given.key == key) read.set(key, read_value(*find_key(key), given.value, given.where), {Source::preset, given.where});
    }
  }
  if (asks_for_parts_anywhere(read)) reader.give("bias_and_norm_anywhere", true);
}

void read_model(const Described& described, const Json& config, const std::string& where, std::vector<HuggingFaceKey>& keys) {
  Json whole = config;
  fill_in(whole, described.family->model_type, where);
  HuggingFaceReader reader(whole, where, "", keys);
  check_architecture(described.family->architecture, reader);
  read_quantization(reader);
  ignore_what_is_said_besides(reader, whole);
  described.family->read(reader);
  give_parts_anywhere(reader);
  reader.expect_off("attention_dropout");
  reader.finish();
}

// Reads the keys of a model that takes images too, besides those of its text model.
void read_around(const HuggingFaceWhole& whole, const Json& config, const std::string& where) {
  std::vector<HuggingFaceKey> none;
  HuggingFaceReader reader(config, where, "", none);
  check_architecture(whole.architecture, reader);
  read_quantization(reader);
  ignore_what_is_said_besides(reader, config);
  reader.ignore({kText, kTied, "vision_config", "boi_token_index", "eoi_token_index", "image_token_index", "boi_token_id", "eoi_token_id",
                 "image_token_id", "vision_start_token_id", "vision_end_token_id", "mm_tokens_per_image", "projector_hidden_act",
                 "multimodal_projector_bias", "spatial_merge_size", "vision_feature_layer", "vision_soft_tokens_per_image",
                 "video_token_id"});
  if (!whole.may_hear) return reader.finish();
  reader.expect_off("audio_config");
  reader.ignore({"audio_token_id", "boa_token_id", "eoa_token_id", "eoa_token_index"});
  reader.finish();
}

// The description of the text model. Whether embeddings are tied may be said outside of it.
Json text_of(const Json& config, const std::string& where) {
  Json text = child(config, kText, where);
  if (!text.is_object()) refuse("an object of keys and values was expected", fmt::format("{}: {}", where, kText));
  const Json outside = config.value(kTied, Json()), inside = text.value(kTied, Json());
  if (outside.is_null()) return text;
  if (!inside.is_null() && inside != outside) {
    refuse(fmt::format("{} is {} here and {} in {}", kTied, shortened(outside, 40), shortened(inside, 40), kText), where,
           "set both to whether the weights have no lm_head");
  }
  text[kTied] = outside;
  return text;
}

}  // namespace

std::string hugging_face_config(const std::string& path) {
  return path.ends_with(".json") ? path : path + "/config.json";
}

std::string hugging_face_folder(const std::string& path) {
  if (!path.ends_with(".json")) return path;
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

bool is_hugging_face(const std::string& path) {
  const std::string file = hugging_face_config(path);
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error) || std::filesystem::file_size(file, error) > kMostConfig)
    return false;
  const std::string text = read_file(file, "the description of a model", kMostConfig, kFix);
  const bool is_named_so = std::filesystem::path(file).filename() == "config.json";
  const Json config = is_named_so ? parse_json(text, file) : Json::parse(text, nullptr, false);
  return config.is_object() && (config.contains("model_type") || config.contains("architectures"));
}

std::vector<std::int32_t> hugging_face_ends(const std::string& path) {
  constexpr const char* kEnds = "eos_token_id";
  const std::string of_generation = hugging_face_folder(path) + "/generation_config.json";
  for (const std::string& file : {of_generation, hugging_face_config(path)}) {
    if (!is_file(file)) continue;
    Json config = parse_json(read_file(file, "the settings of a model", kMostConfig, kFix), file);
    if (config.is_object() && !config.contains(kEnds) && config.contains(kText)) config = Json(config[kText]);
    const Json ends = config.is_object() ? config.value(kEnds, Json()) : Json();
    if (ends.is_null()) continue;
    std::vector<std::int32_t> ids;
    for (const Json& end : ends.is_array() ? ends : Json::array({ends})) {
      if (!end.is_number_unsigned() || !holds<std::int32_t>(end))
        refuse(fmt::format("{} is {}, a token or a list of tokens was expected", kEnds, shortened(ends, 60)), file,
               "\"eos_token_id\": 2");
      ids.push_back(end.get<std::int32_t>());
    }
    return ids;
  }
  return {};
}

std::vector<HuggingFaceKey> hugging_face_keys(const std::string& path) {
  const std::string file = hugging_face_config(path);
  return hugging_face_keys_in(read_file(file, "the description of a model", kMostConfig, kFix), file);
}

std::optional<HuggingFacePart> hugging_face_part(const std::string& path) {
  const std::string file = hugging_face_config(path);
  const Described described = described_by(parse_json(read_file(file, "the description of a model", kMostConfig, kFix), file), file);
  if (!described.is_part) return std::nullopt;
  return HuggingFacePart{std::string(described.family->architecture), std::string(described.family->model_type)};
}

// The text of a model that sees images too may be described as quantised beside it.
std::optional<ScaledBlock> hugging_face_scaled_block(const std::string& path) {
  const std::string file = hugging_face_config(path);
  const Json config = parse_json(read_file(file, "the description of a model", kMostConfig, kFix), file);
  const bool is_part = described_by(config, file).is_part, is_beside = !config.value("quantization_config", Json()).empty();
  const Json described = is_part && !is_beside ? text_of(config, file) : config;
  std::vector<HuggingFaceKey> none;
  HuggingFaceReader reader(described, file, "", none);
  return read_quantization(reader);
}

std::vector<HuggingFaceKey> hugging_face_keys_in(const std::string& text, const std::string& where) {
  const Json config = parse_json(text, where);
  const Described described = described_by(config, where);
  std::vector<HuggingFaceKey> keys;
  if (!described.is_part) {
    read_model(described, config, where, keys);
    return keys;
  }
  read_around(described.family->whole, config, where);
  const Json part = text_of(config, where);
  const std::string inside = fmt::format("{}: {}", where, kText);
  HuggingFaceReader(part, inside, "", keys).expect_text("model_type", described.family->model_type);
  read_model(described, part, inside, keys);
  return keys;
}

}  // namespace moesh::config
