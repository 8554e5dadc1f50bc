// Reads the config.json of a Hugging Face folder: the model's shape as settings, as a preset would give them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/scaled_block.h"

namespace moesh::config {

struct HuggingFaceKey {
  std::string key, value;  // as on a command line
  std::string where;       // "folder/config.json: rope_theta"
};

// Whether `path` is such a folder, or a config.json itself.
bool is_hugging_face(const std::string& path);

// The config.json that `path` stands for, and the folder that holds it.
std::string hugging_face_config(const std::string& path);
std::string hugging_face_folder(const std::string& path);

// A model that takes images too has a text model as a part, and only that part is read. These are the names that the part has as a model by
// itself.
struct HuggingFacePart {
  std::string architecture, model_type;  // "Gemma3ForCausalLM", "gemma3_text"
};
std::optional<HuggingFacePart> hugging_face_part(const std::string& path);  // nothing if the whole model is a text model

// The tokens that end a text of the model, as generation_config.json says, or else config.json.
std::vector<std::int32_t> hugging_face_ends(const std::string& path);

// The block of 8-bit weights that has one scale, or none if each tensor has one.
std::optional<ScaledBlock> hugging_face_scaled_block(const std::string& path);

// The settings that follow from config.json. Refuses architectures and options that moesh does not have, by their names.
std::vector<HuggingFaceKey> hugging_face_keys(const std::string& path);
std::vector<HuggingFaceKey> hugging_face_keys_in(const std::string& text, const std::string& where);

}  // namespace moesh::config
